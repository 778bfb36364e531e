"""The environment side of the contract: batched, seeded per row, reset per row."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from jaxtyping import Bool, Float, Int8
from numpy import ndarray

from robomem.contract import Observation
from robomem.spec import EmbodimentSpec


@dataclass(frozen=True)
class Step:
    """The outcome of one action in each of B rows."""

    observation: Observation
    reward: Float[ndarray, " B"]
    success: Bool[ndarray, " B"]
    """The task's success condition holds at this tick (not latched)."""
    done: Bool[ndarray, " B"]
    """The episode has ended (by the task or its horizon); the row holds still until it is reset."""
    choice: Int8[ndarray, " B"]
    """Privileged, for scoring only: 1 if the right candidate is being reached, -1 a wrong one, 0 none."""
    elapsed: Float[ndarray, " B"]
    """Seconds since the row's previous observation."""


class Environment(Protocol):
    """A vectorised environment; rows are independent episodes."""

    embodiment: EmbodimentSpec
    num_envs: int
    horizon: int
    """Most steps an episode can last."""
    candidates: int
    """Objects that the task asks to choose between, 0 if it offers no choice; privileged, for scoring only."""

    def reset(self, seeds: Sequence[int | None]) -> Observation:
        """Start an episode in each row that has a seed; rows with `None` keep their state and last observation."""
        ...

    def step(self, actions: Float[ndarray, "B A"]) -> Step:
        """Act for one control period in every row that is not done; raises `NonFiniteError` on NaN."""
        ...

    def close(self) -> None:
        """Stop the workers."""
        ...
