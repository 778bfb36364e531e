"""The shell game: where is the ball after the cups have changed places, round after round?

It shows what recurrent depth buys (RD-VLA, arXiv 2602.07845): all rounds are given at once, but the ball has to be
followed through one after another. Who lacks one of them is at chance.
"""

import torch
from jaxtyping import Int
from torch import Generator, Tensor
from torch.nn import functional

from robomem.probes.base import EPISODES, Batch, Outcome, Probe, Report, steady
from robomem.probes.model import Model
from robomem.probes.trunk import TrunkModel, build_trunk

CUPS = 6
ROUNDS = 4
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
    """An observation shows under which cup the ball is, and where every cup goes in every round.

    Asked for is its place after each round, the last of which counts: what is right after one round leads to the next.
    """

    title = f"Shell game: a ball under one of {CUPS} cups, {ROUNDS} rounds seen at once, by iterations of the trunk"
    features = ROUNDS * CUPS * CUPS + CUPS
    outputs = ROUNDS * CUPS
    conditions = (*ITERATIONS, MOST, ADAPTIVE)
    headline = ADAPTIVE
    chance = 1 / CUPS
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
        """Of every episode: the share of its games at whose end the ball is found."""
        place = outputs[..., -CUPS:].argmax(-1)
        return (place == batch.target[..., -1]).float().mean(1)

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
        moves = torch.rand(rows, games, ROUNDS, CUPS, generator=generator).argsort(-1)
        seen = torch.randint(CUPS, (rows, games), generator=generator)
        rounds, start = functional.one_hot(moves, CUPS).flatten(2), functional.one_hot(seen, CUPS)
        observation = torch.cat([rounds, start], dim=-1) * SCALE
        return Batch(observation, steady(rows, games), follow(moves, seen), torch.ones(rows, games))


def follow(moves: Int[Tensor, "B T R K"], place: Int[Tensor, "B T"]) -> Int[Tensor, "B T R"]:
    """The ball's places after each round, from that before the first; a cup at p goes to `moves[..., p]`."""
    places = []
    for move in moves.unbind(2):
        place = move.gather(-1, place[..., None])[..., 0]
        places.append(place)
    return torch.stack(places, dim=-1)
