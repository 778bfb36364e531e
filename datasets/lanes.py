"""The order in which episodes are seen: lanes of whole episodes, a pure function of (seed, epoch)."""

import heapq
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

_STREAM, _VISITS = 0, 4
"""Keep these random numbers apart from each other and from those of augmentation."""


@dataclass(frozen=True)
class Piece:
    """Consecutive ticks of one episode within a window."""

    position: int
    """Which episode."""
    first: int
    """Its first tick in the piece."""
    ticks: int
    at: int
    """Tick of the window at which the piece begins."""


@dataclass(frozen=True)
class Lane:
    """Episodes one after another, in one row of every window."""

    positions: tuple[int, ...]
    """Which episodes."""
    ends: tuple[int, ...]
    """Ticks of the lane at the end of each episode."""

    @property
    def ticks(self) -> int:
        """Ticks of all its episodes."""
        return self.ends[-1]

    def pieces(self, start: int, stop: int) -> list[Piece]:
        """The parts of episodes in ticks `start` to `stop` of the lane; nothing beyond its end."""
        pieces = []
        first = int(np.searchsorted(self.ends, start, side="right"))
        for position, begin, end in zip(
            self.positions[first:], (0, *self.ends)[first:], self.ends[first:], strict=False
        ):
            if begin >= stop:
                break
            low = max(begin, start)
            pieces.append(Piece(position, low - begin, min(end, stop) - low, low - start))
        return pieces


def draw_visits(weights: Sequence[float], seed: int, epoch: int) -> list[int]:
    """Which episodes an epoch visits: each as often as its weight says, fractions by chance.

    Args:
        weights: Visits per epoch of each episode, in the mean; the epoch has their sum of visits, less than one away.
        seed: Seed of the run.
        epoch: Pass over the data; a weight below 1 leaves out other episodes in each.
    """
    rng = np.random.default_rng([_VISITS, seed, epoch])
    order = rng.permutation(len(weights))  # systematic sampling: neighbours here share a fraction
    passed = np.floor(np.cumsum(np.asarray(weights, float)[order]) + rng.random() + 1e-9)
    visits = np.diff(passed, prepend=0).astype(int)
    return np.sort(np.repeat(order, visits)).tolist()


def deal_lanes(lengths: Sequence[int], visits: Sequence[int], lanes: int, seed: int, epoch: int) -> list[Lane]:
    """Shuffle episodes and deal each to the lane with the fewest ticks, so that the lanes end close together.

    Args:
        lengths: Ticks of each episode.
        visits: Episodes to visit, each as often as it stands there; at least as many as lanes.
        lanes: Number of lanes, over all processes.
        seed: Seed of the run.
        epoch: Pass over the data; every pass has its own order.
    """
    dealt: list[list[int]] = [[] for _ in range(lanes)]
    heap = [(0, lane) for lane in range(lanes)]
    for position in np.random.default_rng([_STREAM, seed, epoch]).permutation(visits).tolist():
        ticks, lane = heap[0]
        dealt[lane].append(position)
        heapq.heapreplace(heap, (ticks + lengths[position], lane))
    return [Lane(tuple(positions), tuple(np.cumsum([lengths[p] for p in positions]).tolist())) for positions in dealt]
