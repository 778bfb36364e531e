"""`render=lite`: the same robot with fewer triangles.

Software rendering is bound by vertices, and 425,000 of the scene's 581,000 triangles belong to the housing of the wrist
camera. Its convex hull leaves the wrist image identical; decimated arm links change a few edge pixels of other views.
"""

import hashlib
import shutil
import xml.etree.ElementTree as ET
from functools import partial
from pathlib import Path

from robomem.sim.cache import made_once

HULL_ABOVE = 100_000
"""Triangles above which a mesh is replaced by its convex hull."""
WHOLE_BELOW = 5_000
"""Triangles below which a mesh is left as it is: the hand and fingers, which the wrist camera sees from near."""
KEEP = 0.1
"""Share of the triangles that decimation keeps."""


def use_lite_robots(env_id: str) -> None:
    """Point the robots of an environment at lite models, for this process; call before the environment is built."""
    from mani_skill.agents.registration import REGISTERED_AGENTS
    from mani_skill.utils.registration import REGISTERED_ENVS

    supported = getattr(REGISTERED_ENVS[env_id].cls, "SUPPORTED_ROBOTS", None) or ()
    for uid in (robot for robot in supported if isinstance(robot, str)):
        agent = REGISTERED_AGENTS[uid].agent_cls
        if agent.urdf_path and "robomem" not in agent.urdf_path and Path(agent.urdf_path).exists():
            agent.urdf_path = str(lite_urdf(Path(agent.urdf_path)))


def lite_urdf(urdf: Path) -> Path:
    """Path of a copy of a URDF whose visual meshes are simplified; built once per user and installation.

    Meshes that stay as they are lie in the installation, which may be removed while another one stays.
    """
    source = urdf.read_bytes() + f"{urdf.resolve()} {HULL_ABOVE} {WHOLE_BELOW} {KEEP}".encode()
    key = hashlib.sha256(source).hexdigest()[:16]
    return made_once(f"lite/{key}", partial(_build, urdf)) / urdf.name


def _build(urdf: Path, target: Path) -> None:
    tree = ET.parse(urdf)
    for tag in ("visual", "collision"):
        for mesh in tree.iterfind(f".//{tag}//mesh"):
            source = (urdf.parent / mesh.attrib["filename"]).resolve()
            visual = source if tag == "collision" else _simplify(source, target)
            mesh.attrib["filename"] = visual.name if visual.parent == target else str(visual)
    tree.write(target / urdf.name)
    semantic = urdf.with_suffix(".srdf")  # SAPIEN looks for it beside the URDF: pairs of links that may touch
    if semantic.exists():
        shutil.copy(semantic, target / semantic.name)


def _simplify(source: Path, target: Path) -> Path:
    """A simplified copy of a mesh file in `target`; the file itself where nothing is worth it or `trimesh` cannot."""
    import trimesh

    if source.suffix[1:].lower() not in trimesh.available_formats():
        return source
    scene = trimesh.load_scene(source)
    large = {name: mesh for name, mesh in scene.geometry.items() if len(mesh.faces) >= WHOLE_BELOW}
    if not large:
        return source
    for name, mesh in large.items():
        scene.geometry[name] = _reduce(mesh)
    path = target / f"{source.stem}.glb"
    scene.export(path)
    return path


def _reduce(mesh: "trimesh.Trimesh") -> "trimesh.Trimesh":  # type: ignore[name-defined]
    from trimesh.visual import TextureVisuals

    if len(mesh.faces) > HULL_ABOVE:
        reduced = mesh.convex_hull
    else:
        mesh.merge_vertices(merge_tex=True, merge_norm=True)
        reduced = mesh.simplify_quadric_decimation(1 - KEEP)
    reduced.visual = TextureVisuals(material=getattr(mesh.visual, "material", None))
    return reduced
