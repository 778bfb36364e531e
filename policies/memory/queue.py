"""First in, first out: which of the things seen a memory still holds, as indices.

Indices make one piece of code serve a single step and a whole window; what they point to is gathered once, for all
ticks together.
"""

from collections.abc import Sequence
from typing import NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor


class Queue(NamedTuple):
    """L places, the newest first."""

    source: Int[Tensor, "*B L"]
    """Which of S sources is held in a place."""
    age: Float[Tensor, "*B L"]
    """Seconds; 0 where nothing is held."""
    used: Bool[Tensor, "*B L"]
    """Which places hold something."""

    @classmethod
    def of_state(cls, age: Float[Tensor, "B L"], used: Bool[Tensor, "B L"]) -> "Queue":
        """Place i holds source i: the sources begin with what the state holds."""
        return cls(torch.arange(age.shape[1], device=age.device).expand_as(age), age, used)

    @classmethod
    def stack(cls, queues: "Sequence[Queue]") -> "Queue":
        """Queues of T ticks as one, (B, T, L)."""
        return cls(*(torch.stack(parts, dim=1) for parts in zip(*queues, strict=True)))

    def older(self, dt: Float[Tensor, " B"]) -> "Queue":
        """The same `dt` seconds later."""
        return self._replace(age=torch.where(self.used, self.age + dt[:, None], 0.0))

    def without(self, forgotten: Bool[Tensor, "B #L"]) -> "Queue":
        """Some places emptied."""
        return self._replace(age=torch.where(forgotten, 0.0, self.age), used=self.used & ~forgotten)

    def push(self, rows: Bool[Tensor, " B"], source: int, age: Float[Tensor, " B"]) -> "Queue":
        """In some rows a source enters at the front, and what was last falls out."""
        front = Queue(torch.full_like(self.source[:, :1], source), age[:, None], torch.ones_like(self.used[:, :1]))
        return Queue(
            *(torch.where(rows[:, None], torch.cat([a, b[:, :-1]], dim=1), b) for a, b in zip(front, self, strict=True))
        )

    def contents(self, sources: Float[Tensor, "B S ..."]) -> Float[Tensor, "B ..."]:
        """What the places hold; zeros where they hold nothing."""
        used = self.used.view(*self.used.shape, *[1] * (sources.ndim - 2))
        return torch.where(used, take(sources, self.source), 0.0)


def take(sources: Float[Tensor, "B S ..."], index: Int[Tensor, "B ..."]) -> Float[Tensor, "B ..."]:
    """Sources of each row by their indices; what a place holds that is not used means nothing."""
    rows = torch.arange(len(index), device=index.device).view(-1, *[1] * (index.ndim - 1))
    return sources[rows, index]


def remember(
    queue: Queue,
    dt: Float[Tensor, "B T"],
    valid: Bool[Tensor, "B T"],
    is_first: Bool[Tensor, "B T"],
    interval: float = 0.0,
) -> tuple[Queue, Queue]:
    """Push the observation of every valid tick; that of tick t is source L + t.

    Args:
        queue: Before the window.
        dt: Seconds since the previous tick.
        valid: Ticks at which anything happens.
        is_first: Where a row forgets first.
        interval: Seconds between two that are kept; those in between are not.

    Returns:
        What is held before each tick is pushed, (B, T, L), and after the last.
    """
    size, before = queue.used.shape[1], []
    for t in range(dt.shape[1]):
        queue = queue.without(is_first[:, t, None]).older(torch.where(valid[:, t], dt[:, t], 0.0))
        before.append(queue)
        due = valid[:, t] & (~queue.used[:, 0] | (queue.age[:, 0] >= interval))
        queue = queue.push(due, size + t, torch.zeros_like(dt[:, t]))
    return Queue.stack(before), queue
