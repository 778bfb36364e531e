"""Schema mappings: which field of a foreign dataset means what, as a YAML file each in `configs/mapping/`."""

from collections.abc import Mapping
from dataclasses import dataclass

from robomem.errors import RobomemError
from robomem.spec import VectorSpec

FORMATS = ("lerobot", "rlds")


@dataclass(frozen=True, kw_only=True)
class VectorMapping:
    """Where a vector comes from, and what it means."""

    keys: tuple[str, ...]
    """Fields that are joined in this order."""
    spec: VectorSpec
    """Names, units, frame and limits of the joined vector."""


@dataclass(frozen=True, kw_only=True)
class SchemaMapping:
    """The meaning of a dataset's fields. Fields of RLDS are paths such as `observation/image`."""

    name: str
    """Of the file."""
    format: str
    """`lerobot` or `rlds`."""
    robot_type: str | None = None
    """LeRobot's `robot_type`, or the name of a TFDS dataset; a mapping without one fits any."""
    cameras: Mapping[str, str]
    """Field of each camera, by the name that policies know it by."""
    proprio: VectorMapping
    action: VectorMapping
    instruction: str
    """Field of the instruction; `task` is LeRobot's own."""
    timestamps: str | None = None
    """Field of measured seconds since the episode's start; without one, ticks are `period` apart."""
    period: float | None = None
    """Seconds between ticks; by default 1 / fps of the dataset."""
    reward: str | None = None
    """Field of the reward after each action; zeros without one."""
    success: str | bool = False
    """Field of success after each action, or what holds at the last tick of every episode."""

    def __post_init__(self) -> None:
        """Check what the types do not."""
        if self.format not in FORMATS:
            raise RobomemError(f"mapping {self.name}: format={self.format!r} is not one of {', '.join(FORMATS)}")
        if self.period is not None and not 0 < self.period < 10:
            raise RobomemError(f"mapping {self.name}: period={self.period} must be seconds between two ticks")
