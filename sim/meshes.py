"""Meshes that stand in for assets that must be downloaded."""

import json
from pathlib import Path
from typing import Any

import numpy as np

MUG = "025_mug"
"""Name of the YCB mug."""
BULB = "bulb.glb"
RADIUS, WALL, HEIGHT = 0.045, 0.006, 0.08
"""Metres, of the mug; it stands on its rim, so its mesh is a cup without a handle."""
WALLS = 16


def write_assets(root: Path) -> None:
    """Fill a folder with the stand-ins: the mug in the layout of ManiSkill's assets, and the bulb of the lamps."""
    _write_mug(root / "assets" / "mani_skill2_ycb")
    _bulb().export(root / BULB)


def _write_mug(folder: Path) -> None:
    import trimesh
    from trimesh.visual import TextureVisuals
    from trimesh.visual.material import SimpleMaterial

    model = folder / "models" / MUG
    model.mkdir(parents=True)
    parts = _mug_parts()
    trimesh.util.concatenate(parts).export(model / "collision.ply")
    shape = trimesh.util.concatenate(parts)
    shape.visual = TextureVisuals(material=SimpleMaterial(diffuse=[205, 40, 40, 255], name="mug"))
    shape.export(model / "textured.obj")
    half = [RADIUS, RADIUS, HEIGHT / 2]
    record = {"bbox": {"min": [-x for x in half], "max": half}, "density": 1000, "scales": [1.0]}
    (folder / "info_pick_v0.json").write_text(json.dumps({MUG: record}))


def _mug_parts() -> list[Any]:
    """Convex pieces of a cup: a ring of boxes and a bottom."""
    import trimesh

    width = 2 * RADIUS * np.tan(np.pi / WALLS)
    parts = [trimesh.creation.cylinder(RADIUS, WALL, sections=WALLS)]
    parts[0].apply_translation([0, 0, (WALL - HEIGHT) / 2])
    for angle in np.linspace(0, 2 * np.pi, WALLS, endpoint=False):
        wall = trimesh.creation.box([WALL, width, HEIGHT])
        wall.apply_translation([RADIUS - WALL / 2, 0, 0])
        wall.apply_transform(trimesh.transformations.rotation_matrix(angle, [0, 0, 1]))
        parts.append(wall)
    return parts


def _bulb() -> Any:
    """A glass sphere on a neck along +y, metres, the pivot below the neck as the lamps of the suite expect it."""
    import trimesh

    glass = trimesh.creation.icosphere(subdivisions=2, radius=0.03)
    glass.apply_translation([0, 0.11, 0])
    neck = trimesh.creation.cylinder(0.012, 0.03, sections=WALLS)
    neck.apply_transform(trimesh.transformations.rotation_matrix(np.pi / 2, [1, 0, 0]))
    neck.apply_translation([0, 0.078, 0])
    return trimesh.util.concatenate([glass, neck])
