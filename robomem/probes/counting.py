"""Counting: how often has it flashed?"""

import torch
from torch import Generator

from robomem.probes.base import Batch, Probe, draw, steady

MOST = 7
"""Flashes."""
LENGTHS = (50, 200, 500)
"""Ticks of an episode; training draws up to the first."""


class Counting(Probe):
    """0 to `MOST` flashes at random ticks; their number is asked for at the last tick."""

    title = f"Counting: 0 to {MOST} flashes at random times; share of right counts"
    features = 2
    outputs = MOST + 1
    conditions = tuple(f"{length} ticks" for length in LENGTHS)
    headline = conditions[1]
    chance = 1 / (MOST + 1)

    def training(self, generator: Generator, rows: int) -> Batch:
        """Short episodes."""
        return self._episodes(generator, rows, draw(generator, 2 * MOST, LENGTHS[0]))

    def test(self, generator: Generator, rows: int, condition: str) -> Batch:
        """One length of episode."""
        return self._episodes(generator, rows, LENGTHS[self.conditions.index(condition)])

    def _episodes(self, generator: Generator, rows: int, ticks: int) -> Batch:
        count = torch.randint(MOST + 1, (rows, 1), generator=generator)
        rank = torch.rand(rows, ticks - 1, generator=generator).argsort(1).argsort(1)
        observation = torch.zeros(rows, ticks, self.features)
        observation[:, :-1, 0] = (rank < count).float()
        observation[:, -1, 1] = 1
        weight = torch.zeros(rows, ticks)
        weight[:, -1] = 1
        return Batch(observation, steady(rows, ticks), count.expand(-1, ticks), weight)
