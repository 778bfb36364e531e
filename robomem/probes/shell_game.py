"""The shell game: in which order are the cups after they have changed places, round after round?

It shows what recurrent depth buys (RD-VLA, arXiv 2602.07845): all rounds are given at once, but the cups have to be
followed through one after another. A composition of random permutations that lacks one of them is at chance.
"""

from itertools import permutations

import torch
from jaxtyping import Int
from torch import Generator, Tensor
from torch.nn import functional

from robomem.probes.base import EPISODES, Batch, Outcome, Probe, Report, steady
from robomem.probes.model import Model
from robomem.probes.trunk import TrunkModel, build_trunk

CUPS = 3
ORDERS = list(permutations(range(CUPS)))
"""Ways in which the cups may stand, and in which they may change places."""
ROUNDS = 6
GAMES = 4
"""Of an episode in training, each within one observation and independent of the others."""
TESTED = 16
"""Games of an episode in the test."""
GROWTH = 0.75
"""Share of the training in which games grow from the last round to all of them."""
ITERATIONS = {f"{count} iteration{'s' * (count > 1)}": count for count in (1, 2, 4, 8, 16, 32)}
"""By condition."""
SCALE = len(ORDERS) ** 0.5
"""Of one-hot inputs, for a mean square of about one."""
MOST, ADAPTIVE = "most", "adaptive"


class ShellGame(Probe):
    """An observation shows how the cups change places in every round, and their order before one of the rounds."""

    title = f"Shell game: {CUPS} cups, {ROUNDS} rounds seen at once, by iterations of the trunk; share of right orders"
    features = ROUNDS * len(ORDERS) + ROUNDS + len(ORDERS)
    outputs = len(ORDERS)
    conditions = (*ITERATIONS, MOST, ADAPTIVE)
    headline = ADAPTIVE
    chance = 1 / len(ORDERS)
    group = "trunk"

    @property
    def subjects(self) -> list[str]:
        """One core, with a gradient through as many iterations as there are rounds, and the trunk of fixed depth."""
        return ["mlp", f"recurrent_depth:mean_iterations=10,max_iterations=64,backprop={ROUNDS}"]

    def build(self, name: str) -> TrunkModel:
        """An untrained trunk."""
        return build_trunk(name, self.features, self.outputs)

    def training(self, generator: Generator, rows: int) -> Batch:
        """Games of all lengths, as many whole ones as shorter ones."""
        return self.lesson(generator, rows, share=1.0)

    def lesson(self, generator: Generator, rows: int, share: float) -> Batch:
        """At first the cups are seen before the last round; later half of the games are one round longer, and so on."""
        rounds = min(ROUNDS, 1 + int(share / GROWTH * ROUNDS))
        longest = torch.rand(rows, GAMES, generator=generator) < 1 / 2
        shorter = torch.randint(ROUNDS - rounds, ROUNDS, (rows, GAMES), generator=generator)
        return self._episodes(generator, torch.where(longest, ROUNDS - rounds, shorter))

    def test(self, generator: Generator, rows: int, condition: str) -> Batch:
        """Whole games."""
        return self._episodes(generator, torch.zeros(rows, TESTED, dtype=torch.long))

    def evaluate(self, model: Model, generator: Generator, report: Report) -> Outcome:
        """Test the same games with every number of iterations."""
        assert isinstance(model, TrunkModel)
        batch = self.test(generator, EPISODES, ADAPTIVE)
        models = {condition: model.iterated(count) for condition, count in ITERATIONS.items()}
        models |= {MOST: model.iterated(), ADAPTIVE: model}
        scores, measured = {}, {}
        for done, (condition, solver) in enumerate(models.items(), start=1):
            outputs, iterations = solver.solve(batch.observation.flatten(0, 1))
            scores[condition] = self.score(outputs.view(*batch.target.shape, -1), batch).tolist()
            if condition in (MOST, ADAPTIVE):
                measured[f"mean iterations, {condition}"] = iterations.mean().item()
            report(done / len(models))
        return Outcome(scores, measured)

    def _episodes(self, generator: Generator, first: Int[Tensor, "B T"]) -> Batch:
        """Games in which the cups are seen before round `first`."""
        moves = torch.randint(len(ORDERS), (*first.shape, ROUNDS), generator=generator)
        seen = torch.randint(len(ORDERS), first.shape, generator=generator)
        rounds = functional.one_hot(moves, len(ORDERS)).flatten(2)
        start = torch.cat([functional.one_hot(first, ROUNDS), functional.one_hot(seen, len(ORDERS))], dim=-1)
        observation = torch.cat([rounds, start], dim=-1) * SCALE
        return Batch(observation, steady(*first.shape), follow(moves, first, seen), torch.ones(first.shape))


def follow(moves: Int[Tensor, "B T R"], first: Int[Tensor, "B T"], order: Int[Tensor, "B T"]) -> Int[Tensor, "B T"]:
    """The order of the cups after the last round, from that before round `first`; all as indices into `ORDERS`."""
    after = torch.tensor([[ORDERS.index(move(order, places)) for places in ORDERS] for order in ORDERS])
    for number, places in enumerate(moves.unbind(2)):
        order = torch.where(number < first, order, after[order, places])
    return order


def move(order: tuple[int, ...], places: tuple[int, ...]) -> tuple[int, ...]:
    """The cup at every place goes to another: that at place p to `places[p]`."""
    return tuple(order[places.index(place)] for place in range(CUPS))
