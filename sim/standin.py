"""Stand-ins for assets that must be downloaded: the YCB mug of the shell games.

Official assets are used where ManiSkill finds them. Otherwise a mug of about the same size is made here, and every
record says `stand-in`: scores with it compare to nothing but each other.
"""

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np

from robomem.sim.cache import made_once

MUG = "025_mug"
RADIUS, WALL, HEIGHT = 0.045, 0.006, 0.08
"""Metres; the mug stands on its rim, so its mesh is a cup without a handle."""
WALLS = 16


def assets(env_id: str) -> str:
    """`official`, or `stand-in` where an environment is to run with substitutes."""
    return "stand-in" if env_id.startswith("ShellGame") and not _official_mug() else "official"


def provide(env_id: str) -> None:
    """Make the stand-ins of an environment and point the simulator of this process at them, where they are needed."""
    if assets(env_id) == "official":
        return
    from mani_skill.utils.assets.data import DATA_SOURCES
    from mani_skill.utils.building.actors import ycb

    folder = made_once("stand-in-1", _write)
    DATA_SOURCES["ycb"].output_dir = folder  # pyright: ignore[reportAttributeAccessIssue] - it always is a `Path`
    ycb.ASSET_DIR = folder
    for name, module in list(sys.modules.items()):
        if name.startswith("mikasa_robo_suite.vla.memory_envs.shell_game"):
            vars(module)["ASSET_DIR"] = folder


def hold_hidden_cups(env: Any) -> None:
    """Keep cups that a shell game has put 1000 m up from falling; they would come back inside the table."""
    for name in ("mug_left", "mug_center", "mug_right"):
        mug = getattr(env, name, None)
        if mug is not None and hasattr(env, "cue_steps_per_env"):
            hidden = (env.elapsed_steps < env.cue_steps_per_env).tolist()
            for body, up in zip(mug._bodies, hidden, strict=True):
                body.disable_gravity = up
                if up:
                    body.linear_velocity = body.angular_velocity = np.zeros(3)


def _official_mug() -> bool:
    from mani_skill import ASSET_DIR

    return (ASSET_DIR / "assets" / "mani_skill2_ycb" / "models" / MUG).exists()


def _write(root: Path) -> None:
    """Fill a folder in the layout of ManiSkill's assets with the stand-in mug."""
    import trimesh
    from trimesh.visual import TextureVisuals
    from trimesh.visual.material import SimpleMaterial

    folder = root / "assets" / "mani_skill2_ycb"
    model = folder / "models" / MUG
    model.mkdir(parents=True)
    parts = _parts()
    trimesh.util.concatenate(parts).export(model / "collision.ply")
    shape = trimesh.util.concatenate(parts)
    shape.visual = TextureVisuals(material=SimpleMaterial(diffuse=[205, 40, 40, 255], name="mug"))
    shape.export(model / "textured.obj")
    half = [RADIUS, RADIUS, HEIGHT / 2]
    record = {"bbox": {"min": [-x for x in half], "max": half}, "density": 1000, "scales": [1.0]}
    (folder / "info_pick_v0.json").write_text(json.dumps({MUG: record}))


def _parts() -> list[Any]:
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
