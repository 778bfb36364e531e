"""What a dataset on disk says of itself, in every format: the basis for choosing a mapping."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from robomem.datasets import lerobot_format as form
from robomem.datasets import rlds_format
from robomem.datasets.lerobot_index import read_keys, reading
from robomem.datasets.npz_format import episode_paths, load_arrays
from robomem.errors import RobomemError
from robomem.files import read_json

LEROBOT, RLDS, NPZ = "lerobot", "rlds", "npz"
TITLES = {LEROBOT: "LeRobotDataset v3", RLDS: "RLDS", NPZ: "NPZ episodes"}
_CONVERTER = "python -m lerobot.scripts.convert_dataset_v21_to_v30 --repo-id=NAME --push-to-hub=false --root="


@dataclass(frozen=True, kw_only=True)
class Field:
    """One field of a dataset's ticks."""

    dtype: str
    """`image` or `video` for cameras, otherwise the type of a number, or `string`."""
    shape: tuple[int, ...]
    """Height, width and channels of a camera; -1 where it may differ from frame to frame."""
    names: tuple[str, ...] = ()
    """Of a vector's entries, where the dataset has them."""

    @property
    def is_camera(self) -> bool:
        """Whether it holds colour images."""
        return self.dtype in ("image", "video") and len(self.shape) == 3 and self.shape[2] == 3

    @property
    def is_vector(self) -> bool:
        """Whether it holds a number or a vector of them for each tick."""
        return self.dtype not in ("image", "video", "string") and len(self.shape) <= 1

    @property
    def size(self) -> int:
        """Number of entries."""
        return math.prod(self.shape)


@dataclass(frozen=True, kw_only=True)
class DatasetSchema:
    """A dataset without its episodes."""

    root: Path
    """The folder that holds it; of RLDS that of its version."""
    format: str
    """`lerobot` (v3), `rlds` or `npz`."""
    recorded: bool
    """Whether RoboMem wrote it, with files of its own that tell its meaning."""
    robot_type: str
    """LeRobot's `robot_type` or the name of a TFDS dataset; empty where there is none."""
    fps: float | None
    """Nominal ticks per second, where the format has it."""
    episodes: int
    ticks: int | None
    """Of all episodes, where the format counts them."""
    fields: Mapping[str, Field]
    """By name; fields of RLDS have paths such as `observation/image`."""


def read_schema(root: Path | str) -> DatasetSchema:
    """Find the format of a dataset and read its fields.

    Raises:
        RobomemError: no dataset there, an older LeRobotDataset, or a damaged file.
    """
    root = Path(root)
    if not root.is_dir():
        raise RobomemError(f"there is no dataset at {root}; give another folder or collect one with `robomem collect`")
    if (root / form.INFO).is_file() or (root / form.ROBOMEM).is_file():
        return _lerobot(root)
    if next(root.glob("**/" + rlds_format.INFO), None):
        return _rlds(rlds_format.version_folder(root))
    if paths := episode_paths(root):
        return _npz(root, paths)
    raise RobomemError(
        f"{root} is not a dataset: it has neither {form.INFO} (LeRobot), nor {rlds_format.INFO} (RLDS), nor "
        "train_data_<n>.npz; give another folder"
    )


def _lerobot(root: Path) -> DatasetSchema:
    version = str(read_keys(root / form.INFO, "codebase_version")["codebase_version"])
    if not version.startswith("v3"):
        raise RobomemError(
            f"{root} is a LeRobotDataset {version}, RoboMem reads v3; convert a copy of it with LeRobot's own "
            f"`{_CONVERTER}{root}`"
        )
    info = read_keys(root / form.INFO, "total_episodes", "total_frames", "fps", "features")
    with reading(root / form.INFO):
        if not info["fps"] > 0:
            raise ValueError(f"fps is {info['fps']}")
        return DatasetSchema(
            root=root,
            format=LEROBOT,
            recorded=(root / form.ROBOMEM).is_file(),
            robot_type=str(info.get("robot_type") or ""),
            fps=float(info["fps"]),
            episodes=int(info["total_episodes"]),
            ticks=int(info["total_frames"]),
            fields={name: _lerobot_field(feature) for name, feature in info["features"].items()},
        )


def _lerobot_field(feature: Mapping[str, Any]) -> Field:
    shape, names = tuple(map(int, feature["shape"])), feature.get("names")
    if isinstance(names, dict):  # of groups of entries, such as {"motors": [...]}
        names = [name for group in names.values() for name in group]
    if feature["dtype"] not in ("image", "video"):
        return Field(dtype=feature["dtype"], shape=shape, names=tuple(map(str, names or ())))
    if (feature.get("info") or {}).get("is_depth_map"):
        return Field(dtype=feature["dtype"], shape=(*shape[:2], 1))
    if len(shape) == 3 and (names[0] in ("channel", "channels") if names else shape[0] == 3 != shape[2]):
        shape = (*shape[1:], shape[0])
    return Field(dtype=feature["dtype"], shape=shape)


def _rlds(root: Path) -> DatasetSchema:
    info, features = root / rlds_format.INFO, root / rlds_format.FEATURES
    described, declared = read_json(info), read_json(features)
    with reading(features):
        steps = declared["featuresDict"]["features"][rlds_format.STEPS]["sequence"]["feature"]
        fields = _rlds_fields(steps["featuresDict"]["features"], prefix="")
    with reading(info):
        return DatasetSchema(
            root=root,
            format=RLDS,
            recorded=rlds_format.load_recorded(root) is not None,
            robot_type=described["name"],
            fps=None,
            episodes=sum(int(count) for split in described["splits"] for count in split["shardLengths"]),
            ticks=None,
            fields=fields,
        )


def _npz(root: Path, paths: list[Path]) -> DatasetSchema:
    fields: dict[str, Field] = {}
    for name, array in load_arrays(paths[0]).items():
        if array.ndim == 4:  # the cameras' channels lie one after another
            cameras = {
                f"{name}/{i}": Field(dtype="image", shape=(*array.shape[1:3], 3)) for i in range(array.shape[3] // 3)
            }
            fields |= cameras
        elif array.dtype.kind in "US":
            fields[name] = Field(dtype="string", shape=())
        elif array.ndim in (1, 2):
            fields[name] = Field(dtype=str(array.dtype), shape=array.shape[1:])
    return DatasetSchema(
        root=root, format=NPZ, recorded=False, robot_type="", fps=None, episodes=len(paths), ticks=None, fields=fields
    )


def _rlds_fields(features: Mapping[str, Any], prefix: str) -> dict[str, Field]:
    found: dict[str, Field] = {}
    for name, feature in features.items():
        if "featuresDict" in feature:
            found |= _rlds_fields(feature["featuresDict"]["features"], f"{prefix}{name}/")
        elif "text" in feature:
            found[prefix + name] = Field(dtype="string", shape=())
        elif tensor := feature.get("image") or feature.get("tensor"):
            shape = tuple(map(int, tensor.get("shape", {}).get("dimensions", ())))
            dtype = "image" if "image" in feature else tensor["dtype"]
            found[prefix + name] = Field(dtype="string" if dtype in ("object", "string") else dtype, shape=shape)
    return found
