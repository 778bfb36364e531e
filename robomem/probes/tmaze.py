"""T-Maze: a sign at the entrance says which way to turn at the end of a corridor.

The classic test of long-term credit (Bakker, 2001); ELMUR (arXiv 2510.07151) reports it at a million steps.
"""

import math
import statistics
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

import torch
from jaxtyping import Bool, Float
from torch import Generator, Tensor
from torch.nn import functional

from robomem.probes.base import EPISODES, Batch, Outcome, Probe, Report, choose, steady
from robomem.probes.model import Model

if TYPE_CHECKING:
    from robomem.policies.memory.base import State

LONGEST = 100
"""Steps of corridor in training."""
LENGTHS = (100, 1_000, 10_000, 100_000, 1_000_000)
CHUNK = 16
"""Ticks of corridor at once."""
TIMED = 400
"""Steps that latency is measured over."""
LOOK = 3


class TMaze(Probe):
    """Left or right, seen once; every corridor has its own look, which never changes along it."""

    title = "T-Maze: a sign at the entrance, a corridor of constant look, a turn at its end; share of right turns"
    features = 2 + 2 + LOOK
    outputs = 2
    conditions = tuple(f"{length:,} steps" for length in LENGTHS)
    headline = conditions[-1]
    chance = 1 / 2

    def training(self, generator: Generator, rows: int) -> Batch:
        """Corridors of at most `LONGEST` steps, as many of 3 to 6 as of 50 to 100."""
        length = round(math.exp(math.log(LONGEST) * torch.rand((), generator=generator).item()))
        return self._episodes(generator, rows, length)

    def test(self, generator: Generator, rows: int, condition: str) -> Batch:
        """Corridors of one length."""
        return self._episodes(generator, rows, LENGTHS[self.conditions.index(condition)])

    def evaluate(self, model: Model, generator: Generator, report: Report) -> Outcome:
        """One walk along the longest corridor; at each length the turn is asked of the memory as it is there."""
        batch = self._episodes(generator, EPISODES, 1)
        entrance, corridor, junction = batch.observation.unbind(1)
        dt, way = batch.dt[:, 0], batch.target[:, -1]
        _, state = model.step(model.init(EPISODES), entrance, dt)
        scores, states, walked = {}, [], 0
        for condition, length in zip(self.conditions, LENGTHS, strict=True):
            state = walk(
                model, state, corridor, length - walked, lambda n, start=walked: report((start + n) / LENGTHS[-1])
            )
            walked = length
            states.append(state)
            answer, _ = model.step(state, junction, dt)
            scores[condition] = (answer.argmax(-1) == way).float().tolist()
        return Outcome(scores, costs(model, junction, states[0], states[-1]))

    def _episodes(self, generator: Generator, rows: int, length: int) -> Batch:
        """Entrance, `length` steps of corridor, junction."""
        way = choose(generator, rows, 1, 2)[:, 0]
        ticks = length + 2
        observation = torch.zeros(rows, ticks, self.features)
        observation[:, 0, :2] = functional.one_hot(way, 2).float()
        observation[:, 1:-1, 2] = 1
        observation[:, -1, 3] = 1
        observation[..., -LOOK:] = torch.randn(rows, 1, LOOK, generator=generator) / 2
        weight = torch.zeros(rows, ticks)
        weight[:, -1] = 1
        return Batch(observation, steady(rows, ticks), way[:, None].expand(-1, ticks), weight)


def walk(
    model: Model, state: "State", observation: Float[Tensor, "B F"], ticks: int, report: Callable[[int], None]
) -> "State":
    """The state after seeing the same observation for `ticks` ticks.

    The next state of a row depends on its present one alone. So one that comes back bit for bit has closed a circle,
    and to go round it changes nothing: whole rounds that are left are skipped. Circles are found as by Brent (1980):
    states are compared with one that is marked, and the mark moves on after twice as many chunks as the last time.
    """
    from robomem.policies.memory.base import select

    rounds, rest = divmod(ticks, CHUNK)
    dt, seen = steady(len(observation), CHUNK), observation[:, None].expand(-1, CHUNK, -1)
    left = torch.full(observation.shape[:1], rounds)
    marked, since, patience = state, 0, 1
    while left.any():
        state = select(left > 0, model.fold(state, seen, dt), state)
        left, since = (left - 1).clamp_min(0), since + 1
        left = torch.where(_same(marked, state, len(left)), left % since, left)
        report(ticks - CHUNK * int(left.max()))
        if since == patience:
            marked, since, patience = state, 0, 2 * patience
    return model.fold(state, seen[:, :rest], dt[:, :rest]) if rest else state


def _same(a: "State", b: "State", rows: int) -> Bool[Tensor, " B"]:
    """Which rows are equal in all entries."""
    same = torch.ones(rows, dtype=torch.bool)
    for name, value in a.items():
        same &= (value == b[name]).reshape(rows, -1).all(1)
    return same


def costs(model: Model, observation: Tensor, early: "State", late: "State") -> dict[str, float]:
    """Size of the memory of one episode and processor time of one step, at the shortest and the longest length.

    The two are timed in turns, so that whatever else the machine does falls on both.
    """
    states = {LENGTHS[0]: early, LENGTHS[-1]: late}
    rows = {length: {name: value[:1].clone() for name, value in state.items()} for length, state in states.items()}
    times: dict[int, list[int]] = {length: [] for length in states}
    for _ in range(TIMED):
        for length, state in rows.items():
            start = time.process_time_ns()
            model.step(state, observation[:1], steady(1, 1)[0])
            times[length].append(time.process_time_ns() - start)
    measured = {}
    for length, state in rows.items():
        measured[f"bytes at {length:,}"] = float(sum(value.numel() * value.element_size() for value in state.values()))
        measured[f"ms per step at {length:,}"] = statistics.median(times[length]) / 1e6
    return measured
