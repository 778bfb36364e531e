"""An outside check: tasks of POPGym (arXiv 2303.01859), learned from right answers and scored by their returns."""

from collections.abc import Mapping
from importlib import import_module
from typing import Any, ClassVar

import torch
from jaxtyping import Float, Int
from torch import Generator, Tensor
from torch.nn import functional

from robomem.probes.base import EPISODES, Batch, Outcome, Probe, Report, draw, steady
from robomem.probes.model import Model

SUITS = 4


class _Cards(Probe):
    """One card after another, of which the suit is seen; the suit of an earlier one is asked at every tick."""

    task: str
    """Module of `popgym.envs`."""
    levels: ClassVar[Mapping[str, str]]
    """Classes in it by condition; the first is trained on."""
    features = outputs = SUITS
    headline = "easy"
    unit = "return"
    chance = 2 / SUITS - 1

    def answer(self, cards: Int[Tensor, "B T"]) -> tuple[Int[Tensor, "B T"], Float[Tensor, "B T"]]:
        """The right answers to what was seen, and which of them count."""
        raise NotImplementedError

    def training(self, generator: Generator, rows: int) -> Batch:
        """Cards of the easy level."""
        return self.test(generator, rows, "easy")

    def test(self, generator: Generator, rows: int, condition: str) -> Batch:
        """Cards of one level."""
        env = self._make(condition)
        cards = torch.tensor([_watch(env, draw(generator, 0, 2**31 - 1)) for _ in range(rows)])
        target, weight = self.answer(cards)
        return Batch(functional.one_hot(cards, SUITS).float(), steady(*cards.shape), target, weight)

    def evaluate(self, model: Model, generator: Generator, report: Report) -> Outcome:
        """Returns of the tasks, played with the most probable answers."""
        scores = {}
        for done, condition in enumerate(self.conditions):
            envs = [self._make(condition) for _ in range(EPISODES)]
            cards = torch.tensor([env.reset(seed=draw(generator, 0, 2**31 - 1))[0] for env in envs])
            state, returns, over = model.init(EPISODES), torch.zeros(EPISODES), False
            while not over:
                answers, state = model.step(state, functional.one_hot(cards, SUITS).float(), steady(EPISODES, 1)[:, 0])
                steps = [env.step(answer) for env, answer in zip(envs, answers.argmax(-1).tolist(), strict=True)]
                cards = torch.tensor([step[0] for step in steps])
                returns += torch.tensor([step[1] for step in steps])
                over = steps[0][2]
            scores[condition] = returns.tolist()
            report((done + 1) / len(self.conditions))
        return Outcome(scores)

    def _make(self, condition: str) -> Any:
        return getattr(import_module(f"popgym.envs.{self.task}"), self.levels[condition])()


class RepeatFirst(_Cards):
    """The first card's suit."""

    title = "POPGym RepeatFirst: the suit of the first card at every tick; return from -1 to 1, trained on Easy"
    task = "repeat_first"
    levels: ClassVar[Mapping[str, str]] = {
        "easy": "RepeatFirstEasy",
        "medium": "RepeatFirstMedium",
        "hard": "RepeatFirstHard",
    }
    conditions = tuple(levels)

    def answer(self, cards: Tensor) -> tuple[Tensor, Tensor]:
        """The same at all ticks."""
        return cards[:, :1].expand_as(cards), torch.ones(cards.shape)


class RepeatPrevious(_Cards):
    """The suit of the card three before the newest."""

    title = "POPGym RepeatPrevious: the suit of the fourth card from the end at every tick; return from -1 to 1"
    task = "repeat_previous"
    levels: ClassVar[Mapping[str, str]] = {"easy": "RepeatPreviousEasy"}
    conditions = tuple(levels)

    def answer(self, cards: Tensor) -> tuple[Tensor, Tensor]:
        """From the fourth card on."""
        back = 3
        weight = torch.ones(cards.shape)
        weight[:, :back] = 0
        return functional.pad(cards[:, :-back], (back, 0)), weight


def _watch(env: Any, seed: int) -> list[int]:
    """The cards of an episode on which an answer is given; they do not depend on the answers."""
    card, _ = env.reset(seed=seed)
    cards, over = [], False
    while not over:
        cards.append(card)
        card, _, over, _, _ = env.step(0)
    return cards
