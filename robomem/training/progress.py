"""How far a run is, and the means of its measurements: plain values that a checkpoint stores."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Self

from robomem.config import TrainConfig


@dataclass(frozen=True)
class Position:
    """A place between two steps of a run."""

    step: int = 0
    """Steps done."""
    epoch: int = 0
    """Pass over the data that the next window is of."""
    window: int = 0
    """Windows of that pass that are done."""
    elapsed: float = 0.0
    """Seconds of training, over all interruptions."""

    def after(self, epoch: int, window: int, elapsed: float) -> "Position":
        """The position after one more step, on a window of a pass."""
        return Position(self.step + 1, epoch, window + 1, elapsed)

    def share(self, config: TrainConfig) -> float:
        """Share of the run that is done, from 0 to 1."""
        steps = self.step / config.max_steps if config.max_steps else 0.0
        time = self.elapsed / (60 * config.max_minutes) if config.max_minutes else 0.0
        return min(1.0, max(steps, time))


@dataclass(frozen=True)
class Meter:
    """Sums over the steps since the last line of the metrics."""

    steps: int = 0
    seconds: float = 0.0
    frames: int = 0
    """Ticks seen, over all rows."""
    sums: Mapping[str, float] = field(default_factory=dict)

    def add(self, values: Mapping[str, float], frames: int, seconds: float) -> "Meter":
        """The meter after one more step."""
        sums = {name: self.sums.get(name, 0.0) + value for name, value in values.items()}
        return replace(
            self, steps=self.steps + 1, seconds=self.seconds + seconds, frames=self.frames + frames, sums=sums
        )

    def means(self) -> dict[str, float]:
        """Means over the steps, and frames per second."""
        means = {name: total / self.steps for name, total in self.sums.items()}
        return {**means, "frames_per_s": self.frames / max(self.seconds, 1e-9)}

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON."""
        return asdict(self)

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Self:
        """Inverse of `to_dict`."""
        return cls(**data)
