"""What a probe is: episodes whose right answers need a memory, a loss and a score."""

from collections.abc import Callable
from dataclasses import dataclass, field

import torch
from jaxtyping import Float, Int
from torch import Generator, Tensor
from torch.nn import functional

from robomem.groups import options
from robomem.probes.model import Model, build_memory

PERIOD = 0.1
"""Seconds between two observations in training."""
EPISODES = 100
"""Tested per condition."""

Report = Callable[[float], None]
"""Takes the share that is done, from 0 to 1."""


@dataclass(frozen=True)
class Batch:
    """Episodes of one length."""

    observation: Float[Tensor, "B T F"]
    dt: Float[Tensor, "B T"]
    """Seconds since the previous observation."""
    target: Int[Tensor, "B T *_"] | Float[Tensor, "B T"]
    """A class, or several, or a quantity in seconds."""
    weight: Float[Tensor, "B T"]
    """1 where an answer counts, else 0."""

    def ticks(self, start: int, stop: int) -> "Batch":
        """A part of every episode."""
        return Batch(*(part[:, start:stop] for part in (self.observation, self.dt, self.target, self.weight)))


@dataclass(frozen=True)
class Outcome:
    """How a trained model did."""

    scores: dict[str, list[float]]
    """One score per episode for every condition."""
    measured: dict[str, float] = field(default_factory=dict)
    """Other quantities by name."""


class Probe:
    """A task; as it stands, of answering with one of `outputs` classes."""

    title: str
    """What it asks, in one line."""
    features: int
    """F, size of an observation."""
    outputs: int
    """Size of an answer."""
    conditions: tuple[str, ...]
    """It is tested under; training is like the first."""
    headline: str
    """The condition that stands for the probe in the table."""
    unit = "success"
    """Of a score; `s` (seconds) is an error, everything else is the better the higher."""
    chance: float | None = None
    """Score without memory, where it is known."""
    group = "memory"
    """Of the configurations whose modules it tests."""

    @property
    def subjects(self) -> list[str]:
        """Names of the modules it tests unless others are asked for."""
        return options(self.group)

    def build(self, name: str) -> Model:
        """An untrained model around a module."""
        return build_memory(name, self.features, self.outputs)

    def training(self, generator: Generator, rows: int) -> Batch:
        """Episodes to learn from."""
        raise NotImplementedError

    def test(self, generator: Generator, rows: int, condition: str) -> Batch:
        """Episodes to be tested on."""
        raise NotImplementedError

    def loss(self, outputs: Float[Tensor, "B T O"], batch: Batch) -> Float[Tensor, "B T"]:
        """Of every answer, without its weight."""
        return functional.cross_entropy(outputs.transpose(1, 2), batch.target, reduction="none")

    def score(self, outputs: Float[Tensor, "B T O"], batch: Batch) -> Float[Tensor, " B"]:
        """Of every episode: the share of its answers that are right."""
        right = (outputs.argmax(-1) == batch.target) * batch.weight
        return right.sum(1) / batch.weight.sum(1)

    def evaluate(self, model: Model, generator: Generator, report: Report) -> Outcome:
        """Test a trained model tick by tick under all conditions."""
        scores = {}
        for done, condition in enumerate(self.conditions):
            batch = self.test(generator, EPISODES, condition)
            scores[condition] = self.score(by_steps(model, batch), batch).tolist()
            report((done + 1) / len(self.conditions))
        return Outcome(scores)


def by_steps(model: Model, batch: Batch) -> Float[Tensor, "B T O"]:
    """Answers of a model that sees one observation after another."""
    state, answers = model.init(len(batch.dt)), []
    for tick in range(batch.dt.shape[1]):
        answer, state = model.step(state, batch.observation[:, tick], batch.dt[:, tick])
        answers.append(answer)
    return torch.stack(answers, dim=1)


def steady(rows: int, ticks: int) -> Float[Tensor, "B T"]:
    """Constant `dt`."""
    return torch.full((rows, ticks), PERIOD)


def draw(generator: Generator, low: int, high: int) -> int:
    """A whole number from `low` to `high`, both possible."""
    return int(torch.randint(low, high + 1, (), generator=generator))


def choose(generator: Generator, rows: int, count: int, of: int) -> Int[Tensor, "B K"]:
    """`count` different numbers below `of` per row, in random order."""
    return torch.rand(rows, of, generator=generator).argsort(1)[:, :count]
