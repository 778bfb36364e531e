"""The shell game: where is the ball after the cups have changed places, round after round?

It shows what recurrent depth buys (RD-VLA, arXiv 2602.07845): all rounds are given at once, but the ball has to be
followed through one after another.
"""

import torch
from jaxtyping import Int
from torch import Generator, Tensor
from torch.nn import functional

from robomem.probes.base import EPISODES, Batch, Outcome, Probe, Report, steady
from robomem.probes.model import Model
from robomem.probes.trunk import TrunkModel, build_trunk

CUPS = 3
ROUNDS = 8
GAMES = 4
"""Of an episode in training, each within one observation and independent of the others."""
TESTED = 16
"""Games of an episode in the test."""
ITERATIONS = {f"{count} iteration{'s' * (count > 1)}": count for count in (1, 2, 4, 8, 16)}
"""By condition."""
SCALE = CUPS**0.5
"""Of one-hot inputs, for a mean square of about one."""
MOST, ADAPTIVE = "most", "adaptive"


class ShellGame(Probe):
    """An observation shows under which cup the ball is, and which cup stays in every round, as the others swap places.

    Asked for is its place after each round: what is right after one leads to the next.
    """

    title = f"Shell game: one of {CUPS} cups followed through {ROUNDS} swaps seen at once, by iterations of the trunk"
    features = ROUNDS * CUPS + CUPS
    outputs = ROUNDS * CUPS
    conditions = (*ITERATIONS, MOST, ADAPTIVE)
    headline = ADAPTIVE
    group = "trunk"

    def build(self, name: str) -> TrunkModel:
        """An untrained trunk."""
        return build_trunk(name, self.features, self.outputs)

    def training(self, generator: Generator, rows: int) -> Batch:
        """Games like those of the test."""
        return self._episodes(generator, rows, GAMES)

    def test(self, generator: Generator, rows: int, condition: str) -> Batch:
        """Games of which all rounds are played."""
        return self._episodes(generator, rows, TESTED)

    def loss(self, outputs: Tensor, batch: Batch) -> Tensor:
        """Cross-entropy, in the mean of the rounds."""
        places = outputs.unflatten(-1, (ROUNDS, CUPS)).movedim(-1, 1)
        return functional.cross_entropy(places, batch.target, reduction="none").mean(-1)

    def score(self, outputs: Tensor, batch: Batch) -> Tensor:
        """Of every episode: the share of its games in which the ball is never lost."""
        place = outputs.unflatten(-1, (ROUNDS, CUPS)).argmax(-1)
        return (place == batch.target).all(-1).float().mean(1)

    def evaluate(self, model: Model, generator: Generator, report: Report) -> Outcome:
        """Test the same games with every number of iterations."""
        assert isinstance(model, TrunkModel)
        batch = self.test(generator, EPISODES, ADAPTIVE)
        models = {condition: model.iterated(count) for condition, count in ITERATIONS.items()}
        models |= {MOST: model.iterated(), ADAPTIVE: model}
        scores, measured = {}, {}
        for done, (condition, solver) in enumerate(models.items(), start=1):
            outputs, iterations = solver.solve(batch.observation.flatten(0, 1))
            scores[condition] = self.score(outputs.view(*batch.dt.shape, -1), batch).tolist()
            if condition in (MOST, ADAPTIVE):
                measured[f"mean iterations, {condition}"] = iterations.mean().item()
            report(done / len(models))
        return Outcome(scores, measured)

    def _episodes(self, generator: Generator, rows: int, games: int) -> Batch:
        staying = torch.randint(CUPS, (rows, games, ROUNDS), generator=generator)
        seen = torch.randint(CUPS, (rows, games), generator=generator)
        shown = torch.cat([staying, seen[..., None]], dim=-1)
        observation = functional.one_hot(shown, CUPS).flatten(2) * SCALE
        return Batch(observation, steady(rows, games), follow(staying, seen), torch.ones(rows, games))


def follow(staying: Int[Tensor, "B T R"], place: Int[Tensor, "B T"]) -> Int[Tensor, "B T R"]:
    """The ball's places after each round, from that before the first; the cups that do not stay swap places."""
    places = []
    for stays in staying.unbind(2):
        place = torch.where(place == stays, place, CUPS - stays - place)  # places 0, 1 and 2 sum to 3
        places.append(place)
    return torch.stack(places, dim=-1)
