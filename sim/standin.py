"""Stand-ins for assets that must be downloaded: the YCB mug of the shell games and the bulb of the lamps.

Official assets are used where they are found. Otherwise ones of about the same size are made here, and every record
says `stand-in`: scores with them compare to nothing but each other.
"""

import re
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

from robomem.sim.cache import made_once
from robomem.sim.meshes import BULB, MUG, write_assets

_NEEDS_MUG = re.compile("ShellGame")
_NEEDS_BULB = re.compile("Lamp|BatteriesChecker|BlinkCount|GatherAndRecall|TimedTransfer|TraceShape")


def assets(env_id: str) -> str:
    """`official`, or `stand-in` where an environment is to run with substitutes."""
    return "stand-in" if _lacks_mug(env_id) or _lacks_bulb(env_id) else "official"


def provide(env_id: str) -> None:
    """Make the stand-ins of an environment and point the simulator of this process at them, where they are needed."""
    if _lacks_mug(env_id):
        _use_mug(_folder())
    if _lacks_bulb(env_id):
        _use_bulb(_folder() / BULB)


def _folder() -> Path:
    return made_once("stand-in-2", write_assets)


def _use_mug(folder: Path) -> None:
    from mani_skill.utils.assets.data import DATA_SOURCES
    from mani_skill.utils.building.actors import ycb

    DATA_SOURCES["ycb"].output_dir = folder  # pyright: ignore[reportAttributeAccessIssue] - it always is a `Path`
    ycb.ASSET_DIR = folder
    for name, module in list(sys.modules.items()):
        if re.match(r"mikasa_robo_suite\.\w+\.memory_envs\.shell_game", name):
            vars(module)["ASSET_DIR"] = folder


def _use_bulb(path: Path) -> None:
    """Give the suite's lamps another default for their bulb; the tasks name none."""
    from mikasa_robo_suite.vla.utils.shapes import build_color_switch_lamp as build

    names = build.__code__.co_varnames[: build.__code__.co_argcount]
    defaults = dict(zip(names[-len(build.__defaults__ or ()) :], build.__defaults__ or (), strict=True))
    build.__defaults__ = tuple((defaults | {"bulb_asset_path": str(path)}).values())


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


def _lacks_mug(env_id: str) -> bool:
    if not _NEEDS_MUG.search(env_id):
        return False
    from mani_skill import ASSET_DIR

    return not (ASSET_DIR / "assets" / "mani_skill2_ycb" / "models" / MUG).exists()


def _lacks_bulb(env_id: str) -> bool:
    spec = find_spec("mikasa_robo_suite")
    if not _NEEDS_BULB.search(env_id) or spec is None or spec.origin is None:
        return False
    return not (Path(spec.origin).parent / "vla" / "utils" / "objects" / "low_poly_light_bulb.glb").exists()
