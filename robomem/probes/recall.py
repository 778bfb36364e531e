"""Delayed recall: several items, a silence, and questions about them in another order."""

import torch
from torch import Generator
from torch.nn import functional

from robomem.probes.base import Batch, Probe, choose, draw, steady

ITEMS = 4
SYMBOLS = 6
DELAYS = (20, 100, 500)
"""Ticks of silence; training draws up to the first."""


class Recall(Probe):
    """`ITEMS` numbered items are shown one by one; after a silence each is asked for by its number."""

    title = f"Delayed recall: {ITEMS} of {SYMBOLS} symbols by their number, after a silence; share recalled"
    features = SYMBOLS + 2 * ITEMS
    outputs = SYMBOLS
    conditions = tuple(f"{delay} ticks" for delay in DELAYS)
    headline = conditions[1]
    chance = 1 / SYMBOLS

    def training(self, generator: Generator, rows: int) -> Batch:
        """Short silences."""
        return self._episodes(generator, rows, draw(generator, 0, DELAYS[0]))

    def test(self, generator: Generator, rows: int, condition: str) -> Batch:
        """One length of silence."""
        return self._episodes(generator, rows, DELAYS[self.conditions.index(condition)])

    def _episodes(self, generator: Generator, rows: int, delay: int) -> Batch:
        ticks, first = 2 * ITEMS + delay, ITEMS + delay
        symbols = torch.randint(SYMBOLS, (rows, ITEMS), generator=generator)
        asked = choose(generator, rows, ITEMS, ITEMS)
        observation = torch.zeros(rows, ticks, self.features)
        observation[:, :ITEMS, :SYMBOLS] = functional.one_hot(symbols, SYMBOLS).float()
        observation[:, :ITEMS, SYMBOLS : SYMBOLS + ITEMS] = torch.eye(ITEMS)
        observation[:, first:, SYMBOLS + ITEMS :] = functional.one_hot(asked, ITEMS).float()
        target = torch.zeros(rows, ticks, dtype=torch.long)
        target[:, first:] = symbols.gather(1, asked)
        weight = torch.zeros(rows, ticks)
        weight[:, first:] = 1
        return Batch(observation, steady(rows, ticks), target, weight)
