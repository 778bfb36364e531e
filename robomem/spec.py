"""What a policy, a dataset and an environment must agree on; compared field by field, never guessed."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields, is_dataclass
from typing import Any, Self

from robomem.errors import SpecMismatch


@dataclass(frozen=True, kw_only=True)
class CameraSpec:
    """One RGB camera."""

    name: str
    height: int
    """Pixels."""
    width: int
    """Pixels."""
    channels: str = "RGB"
    """Channel order."""


@dataclass(frozen=True, kw_only=True)
class VectorSpec:
    """A vector of physical quantities: proprioception or an action."""

    names: tuple[str, ...]
    units: tuple[str, ...]
    """SI unit of each entry, or what one unit commands for a normalised action."""
    frame: str
    """Coordinate frame or controller the numbers refer to."""
    low: tuple[float, ...]
    high: tuple[float, ...]

    def __post_init__(self) -> None:
        """Check that every field has one entry per name."""
        for field in ("units", "low", "high"):
            if len(getattr(self, field)) != len(self.names):
                raise SpecMismatch(f"{field} has {len(getattr(self, field))} entries for {len(self.names)} names")

    @property
    def size(self) -> int:
        """Number of entries."""
        return len(self.names)


@dataclass(frozen=True, kw_only=True)
class EmbodimentSpec:
    """The robot as seen by a policy: the same for the environment, the dataset and the checkpoint."""

    cameras: tuple[CameraSpec, ...]
    proprio: VectorSpec
    action: VectorSpec
    action_dt: float
    """Seconds between two actions."""

    @property
    def fps(self) -> int:
        """Actions per second as a whole number of at least 1: the nominal rate of recorded videos and datasets."""
        return max(1, round(1 / self.action_dt))

    def check(self, other: "EmbodimentSpec", mine: str, theirs: str, fix: str) -> None:
        """Raise `SpecMismatch` naming every differing field, both sides (`mine`, `theirs`), and what to do (`fix`)."""
        differences = [
            f"{field}: {mine} has {a!r}, {theirs} has {b!r}" for field, a, b in _differences(self, other, prefix="")
        ]
        if differences:
            raise SpecMismatch(f"{mine} does not fit {theirs}: {'; '.join(differences)}; {fix}")

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON."""
        return asdict(self)

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Self:
        """Inverse of `to_dict`."""
        values = dict(data)
        values["cameras"] = tuple(CameraSpec(**camera) for camera in values["cameras"])
        for name in ("proprio", "action"):
            values[name] = VectorSpec(**{k: _tuple(v) for k, v in values[name].items()})
        return cls(**values)


@dataclass(frozen=True, kw_only=True)
class PolicySpec(EmbodimentSpec):
    """The contract stored in a checkpoint."""

    horizon: int
    """Actions in a chunk."""
    observe_period: float
    """Seconds between observations that the policy was trained with."""
    max_gap: float
    """Largest time between observations, in seconds, that the policy may be trusted with: one dropped tick, or what 99%
    of the gaps in its training stayed within, those included that augmentation made by dropping ticks."""
    statistics_hash: str
    """Digest of the normalisation statistics the weights were trained with."""

    @property
    def embodiment(self) -> EmbodimentSpec:
        """The part shared with environments and datasets."""
        return EmbodimentSpec(**{f.name: getattr(self, f.name) for f in fields(EmbodimentSpec)})


def _tuple(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value


def _differences(a: Any, b: Any, prefix: str) -> list[tuple[str, Any, Any]]:
    """Leaves at which two specs differ, as (path, left, right)."""
    if isinstance(a, VectorSpec) and isinstance(b, VectorSpec) and a.names != b.names:
        return [(f"{prefix}.names".lstrip("."), a.names, b.names)]  # units and limits differ with them
    if is_dataclass(a) and is_dataclass(b):
        return [
            d for f in fields(a) for d in _differences(getattr(a, f.name), getattr(b, f.name), f"{prefix}.{f.name}")
        ]
    if isinstance(a, Sequence) and isinstance(b, Sequence) and any(map(is_dataclass, (*a, *b))):
        left, right = {x.name: x for x in a}, {x.name: x for x in b}
        if list(left) != list(right):
            return [(prefix.lstrip("."), list(left), list(right))]
        return [d for name in left for d in _differences(left[name], right[name], f"{prefix}[{name}]")]
    return [] if a == b else [(prefix.lstrip("."), a, b)]
