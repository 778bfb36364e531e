"""A recorded episode: what collection writes, what datasets store and what replay reads."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from jaxtyping import Bool, Float, UInt8
from numpy import ndarray

from robomem.errors import NonFiniteError, SpecMismatch
from robomem.spec import EmbodimentSpec


@dataclass(frozen=True, kw_only=True)
class Episode:
    """T ticks in order; action t was chosen on seeing observation t."""

    images: Mapping[str, UInt8[ndarray, "T Y X 3"]]
    """RGB frames of each camera."""
    proprio: Float[ndarray, "T P"]
    actions: Float[ndarray, "T A"]
    """The demonstrator's (noise-free) actions: the training targets."""
    timestamps: Float[ndarray, " T"]
    """Capture time of each observation in seconds since the episode's start, float64."""
    reward: Float[ndarray, " T"]
    success: Bool[ndarray, " T"]
    """Whether the task's success condition held after action t."""
    instruction: str
    seed: int
    provenance: Mapping[str, Any] = field(default_factory=dict)
    """JSON values: environment id, renderer, demonstrator, noise, versions."""

    def __len__(self) -> int:
        """Number of ticks."""
        return len(self.actions)

    def check(self, embodiment: EmbodimentSpec) -> None:
        """Raise if a shape differs from the embodiment or a number is not finite.

        Raises:
            SpecMismatch: another camera set, image size, or vector length; both sides are named.
            NonFiniteError: NaN or infinity in proprioception, actions, reward or time.
        """
        ticks = len(self)
        expected = {f"images[{c.name}]": (ticks, c.height, c.width, 3) for c in embodiment.cameras}
        expected |= {"proprio": (ticks, embodiment.proprio.size), "actions": (ticks, embodiment.action.size)}
        expected |= {"timestamps": (ticks,), "reward": (ticks,), "success": (ticks,)}
        arrays = {f"images[{name}]": frames for name, frames in self.images.items()}
        arrays |= {name: getattr(self, name) for name in ("proprio", "actions", "timestamps", "reward", "success")}
        found = {name: array.shape for name, array in arrays.items()}
        if found != expected:
            raise SpecMismatch(f"episode of seed {self.seed} has {found}, the dataset expects {expected}")
        self.check_finite()

    def check_finite(self) -> None:
        """Raise `NonFiniteError` for a NaN or an infinity in proprioception, actions, reward or time."""
        for name in ("proprio", "actions", "timestamps", "reward"):
            finite = np.isfinite(getattr(self, name))
            if not finite.all():
                tick = int(np.argwhere(~finite)[0][0])
                raise NonFiniteError(f"{name} of the episode with seed {self.seed} is not finite at tick {tick}")
