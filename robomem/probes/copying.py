"""Copying under distractors: marked symbols among unmarked ones, to be repeated in order."""

import torch
from torch import Generator
from torch.nn import functional

from robomem.probes.base import Batch, Probe, choose, draw, steady

ITEMS = 3
SYMBOLS = 6
LENGTHS = (30, 100, 300)
"""Ticks of the part to remember; training draws up to the first."""


class Copying(Probe):
    """A symbol at every tick, `ITEMS` of them marked; then as many signals, each answered by the next marked one."""

    title = f"Copying: {ITEMS} marked symbols among distractors, repeated in order; share repeated"
    features = SYMBOLS + 2
    outputs = SYMBOLS
    conditions = tuple(f"{length} ticks" for length in LENGTHS)
    headline = conditions[1]
    chance = 1 / SYMBOLS

    def training(self, generator: Generator, rows: int) -> Batch:
        """Few distractors."""
        return self._episodes(generator, rows, draw(generator, ITEMS, LENGTHS[0]))

    def test(self, generator: Generator, rows: int, condition: str) -> Batch:
        """One number of distractors."""
        return self._episodes(generator, rows, LENGTHS[self.conditions.index(condition)])

    def _episodes(self, generator: Generator, rows: int, shown: int) -> Batch:
        ticks = shown + ITEMS
        symbols = torch.randint(SYMBOLS, (rows, shown), generator=generator)
        marked = choose(generator, rows, ITEMS, shown).sort(1).values
        observation = torch.zeros(rows, ticks, self.features)
        observation[:, :shown, :SYMBOLS] = functional.one_hot(symbols, SYMBOLS).float()
        observation[:, :shown, SYMBOLS].scatter_(1, marked, 1.0)
        observation[:, shown:, SYMBOLS + 1] = 1
        target = torch.zeros(rows, ticks, dtype=torch.long)
        target[:, shown:] = symbols.gather(1, marked)
        weight = torch.zeros(rows, ticks)
        weight[:, shown:] = 1
        return Batch(observation, steady(rows, ticks), target, weight)
