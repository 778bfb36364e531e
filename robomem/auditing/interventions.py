"""What is put in place of a policy's memory before it observes.

The whole memory value is replaced, so that nothing passes from tick to tick but what the intervention grants.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch

from robomem.auditing.replay import replay
from robomem.contract import Memory, Policy
from robomem.episode import Episode
from robomem.rollout import Intervention
from robomem.rows import device_of, split

INTERVENTIONS = ("none", "zero", "swap", "shuffle", "freeze")
"""`zero`: as before the first observation. `swap`: that of one other episode at the same tick. `shuffle`: that of
another episode drawn anew at each tick. `freeze`: as after the first observation."""
MOST_BYTES = 4 * 2**30
"""Main memory that the memories of donors may take."""


@dataclass(frozen=True)
class Donors:
    """The memories along recorded episodes, kept in main memory."""

    trajectories: dict[int, list[Memory]]
    """By seed of the episode: the memory (of one row) after each observation."""
    initial: Memory
    """Before the first observation."""
    device: torch.device

    def pick(self, seed: int, tick: int, draw: Sequence[int]) -> Memory:
        """What another episode knew before observing a tick; which episode is drawn by numbers."""
        others = [other for other in self.trajectories if other != seed]
        chosen = others[np.random.default_rng(draw).integers(len(others))]
        trajectory = self.trajectories[chosen]
        return trajectory[min(tick, len(trajectory)) - 1].map(lambda tensor: tensor.to(self.device))


def record_donors(policy: Policy, episodes: Sequence[Episode]) -> Donors:
    """Keep the memories along at least two episodes with different seeds, as many as fit in `MOST_BYTES`."""
    with torch.inference_mode():
        initial = policy.init_memory(1)
    ticks = max(map(len, episodes))
    size = sum(tensor.nbytes for tensor in (*initial.working.values(), *initial.state.values())) * ticks
    episodes = episodes[: max(2, MOST_BYTES // max(size, 1))]
    trajectories: dict[int, list[Memory]] = {episode.seed: [] for episode in episodes}
    for moment in replay(policy, episodes):
        for row, memory in zip(moment.rows, split(moment.memory), strict=True):
            trajectories[episodes[row].seed].append(memory.map(lambda tensor: tensor.cpu().clone()))
    return Donors(trajectories, initial, device_of(policy))


def make_intervention(name: str, donors: Donors) -> Intervention | None:
    """One of `INTERVENTIONS`; None for `none`. It holds for one pass over episodes with distinct seeds."""
    if name == "none":
        return None
    if name == "zero":
        return lambda memory, seed, tick: donors.initial if tick else memory
    if name == "swap":
        return lambda memory, seed, tick: donors.pick(seed, tick, [seed]) if tick else memory
    if name == "shuffle":
        return lambda memory, seed, tick: donors.pick(seed, tick, [seed, tick]) if tick else memory
    return _Freeze()


class _Freeze:
    """Holds each episode's memory as it was after its first observation."""

    def __init__(self) -> None:
        self._held: dict[int, Memory] = {}

    def __call__(self, memory: Memory, seed: int, tick: int) -> Memory:
        if tick == 0:
            return memory
        if tick == 1:
            self._held[seed] = memory
        return self._held[seed]
