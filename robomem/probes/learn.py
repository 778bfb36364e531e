"""Training of one model on one probe by truncated backpropagation."""

import math
import time
from dataclasses import dataclass

import torch
from torch import Generator
from torch.optim import AdamW, Optimizer

from robomem.errors import NonFiniteError
from robomem.probes.base import Batch, Probe, Report
from robomem.probes.model import Model

ROWS = 32
"""Episodes per step."""
WINDOW = 64
"""Ticks that gradients reach back at most; the memory is carried on without them."""
RATE = 3e-3
CLIP = 1.0
WARM_UP = 50
"""Steps in which the rate rises to `RATE`; it falls to zero along a cosine."""


@dataclass(frozen=True)
class Budget:
    """The end of a training, by whichever comes first."""

    steps: int
    minutes: float
    """Of processor time, so that other work on the machine does not shorten the training."""

    def share(self, steps: int, seconds: float) -> float:
        """How much of it is spent, from 0 to 1."""
        return min(1.0, max(steps / self.steps, seconds / (60 * self.minutes)))


def train(model: Model, probe: Probe, budget: Budget, generator: Generator, report: Report) -> int:
    """Train until the budget is spent.

    Returns:
        Steps done.

    Raises:
        NonFiniteError: the loss became infinite or NaN.
    """
    optimiser = AdamW(model.parameters(), lr=RATE)
    start, steps, share = time.process_time(), 0, 0.0
    while share < 1:
        for group in optimiser.param_groups:
            group["lr"] = RATE * min(1.0, (steps + 1) / WARM_UP) * (1 + math.cos(math.pi * share)) / 2
        _step(model, probe, probe.training(generator, ROWS), optimiser)
        steps += 1
        share = budget.share(steps, time.process_time() - start)
        report(share)
    return steps


def _step(model: Model, probe: Probe, batch: Batch, optimiser: Optimizer) -> None:
    """One update from whole episodes, cut into windows."""
    optimiser.zero_grad()
    state, answers = model.init(len(batch.dt)), batch.weight.sum()
    for start in range(0, batch.dt.shape[1], WINDOW):
        window = batch.ticks(start, start + WINDOW)
        outputs, state = model.scan(state, window.observation, window.dt)
        loss = (probe.loss(outputs, window) * window.weight).sum() / answers
        if not loss.isfinite():
            raise NonFiniteError("the loss of a probe is not finite; the module is unstable in training")
        if window.weight.any():
            loss.backward()
        state = {name: value.detach() for name, value in state.items()}
    torch.nn.utils.clip_grad_norm_(model.parameters(), CLIP)
    optimiser.step()
