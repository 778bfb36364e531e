"""The RLDS layout of RoboMem and of the released MIKASA-Robo-VLA datasets, described without importing TensorFlow.

Beyond the released fields, a dataset that RoboMem wrote has

- the fields `capture_time` (measured float64 seconds since the episode's start) and `success` in every step;
- the fields `seed` and `provenance` (JSON) in `episode_metadata`;
- `robomem.json`: the embodiment, the field of each camera, and the provenance of the whole.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from robomem.datasets.mapping import SchemaMapping, VectorMapping
from robomem.errors import RobomemError
from robomem.files import read_json, write_json
from robomem.spec import CameraSpec, EmbodimentSpec

INFO = "dataset_info.json"
FEATURES = "features.json"
SHARDS = "*.tfrecord-*"
STEPS = "steps"
EPISODE = "episode_metadata"
PROPRIO = "observation/proprio"
ACTION = "action"
INSTRUCTION = "language_instruction"
REWARD = "reward"
CAPTURE_TIME = "capture_time"
SUCCESS = "success"
SEED = "seed"
PROVENANCE = "provenance"

FRAMING = 16
"""Bytes of a TFRecord beside its content."""

_RECORDED = "robomem.json"
_RELEASED = {"top": "image", "wrist": "wrist_image"}
"""Fields of MIKASA-Robo-VLA's cameras."""


@dataclass(frozen=True)
class Recorded:
    """What RoboMem noted beside a dataset that it wrote."""

    embodiment: EmbodimentSpec
    images: Mapping[str, str]
    """Field in `observation` of each camera."""
    provenance: dict[str, Any]

    @property
    def mapping(self) -> SchemaMapping:
        """The meaning of its fields."""
        return SchemaMapping(
            name=_RECORDED,
            format="rlds",
            cameras={camera: f"observation/{field}" for camera, field in self.images.items()},
            proprio=VectorMapping(keys=(PROPRIO,), spec=self.embodiment.proprio),
            action=VectorMapping(keys=(ACTION,), spec=self.embodiment.action),
            instruction=INSTRUCTION,
            timestamps=CAPTURE_TIME,
            period=self.embodiment.action_dt,
            reward=REWARD,
            success=SUCCESS,
        )

    def save(self, folder: Path) -> None:
        """Write it into a dataset's folder."""
        value = {"embodiment": self.embodiment.to_dict(), "images": self.images, "provenance": self.provenance}
        write_json(folder / _RECORDED, value)


def load_recorded(folder: Path) -> Recorded | None:
    """What RoboMem noted beside a dataset; None if another program wrote it.

    Raises:
        RobomemError: the note is damaged.
    """
    path = folder / _RECORDED
    if not path.exists():
        return None
    value = read_json(path)
    try:
        return Recorded(EmbodimentSpec.from_dict(value["embodiment"]), dict(value["images"]), dict(value["provenance"]))
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise damaged(path, error) from error


def image_fields(cameras: Sequence[CameraSpec], layout: Mapping[str, str] | None) -> dict[str, str]:
    """Field in `observation` of each camera: the given ones, or the released ones, or the cameras' own names."""
    names = [camera.name for camera in cameras]
    layout = layout or (_RELEASED if set(names) == set(_RELEASED) else {name: name for name in names})
    fields = [*layout.values(), "proprio"]
    if set(layout) != set(names) or len(set(fields)) < len(fields):
        raise RobomemError(
            f"the layout {dict(layout)} does not fit the cameras {', '.join(names)}; "
            "give every camera a field of its own, other than proprio"
        )
    return {name: layout[name] for name in names}


def version_folder(root: Path) -> Path:
    """The folder of a TFDS dataset's version: the one given, or the only one below it.

    Raises:
        RobomemError: there is none, or more than one.
    """
    found = [path.parent for depth in range(4) for path in sorted(root.glob("*/" * depth + INFO))]
    if len(found) == 1:
        return found[0]
    if found:
        names = ", ".join(str(folder.relative_to(root)) for folder in found)
        raise RobomemError(f"{root} holds {len(found)} RLDS datasets ({names}); give the folder of one of them")
    raise RobomemError(f"there is no RLDS dataset at {root}: no {INFO}; give the folder of a version, such as 1.0.0")


def damaged(path: Path | str, why: object) -> RobomemError:
    """The error for a file that cannot be read."""
    reason = " ".join(str(why).split())[:200]
    return RobomemError(f"{path} is damaged ({reason}); restore it from a copy or download it again")
