"""The shell game: its answers are those of cups on a table, and every round counts."""

import pytest
import torch
from torch import Generator, Tensor
from torch.nn import functional

from robomem.policies.heads.recurrent_depth import RecurrentDepth
from robomem.probes.base import EPISODES, Batch
from robomem.probes.shell_game import CUPS, GAMES, ITERATIONS, ROUNDS, TESTED, ShellGame, follow
from robomem.probes.trunk import build_trunk

ROWS = 16


def generator(seed: int = 0) -> Generator:
    return Generator().manual_seed(seed)


def read(batch: Batch) -> tuple[Tensor, Tensor]:
    """What observations show: the cup that stays in every round, and the cup with the ball."""
    shown = batch.observation.unflatten(-1, (ROUNDS + 1, CUPS)).argmax(-1)
    return shown[..., :-1], shown[..., -1]


def on_a_table(staying: list[int], seen: int) -> list[int]:
    """Where the ball is after each round: in each of them two of three cups swap places."""
    table, places = [cup == seen for cup in range(CUPS)], []
    for stays in staying:
        one, other = (cup for cup in range(CUPS) if cup != stays)
        table[one], table[other] = table[other], table[one]
        places.append(table.index(True))
    return places


@pytest.mark.parametrize("kind", ["training", "test"])
def test_answers_are_those_of_cups_on_a_table(kind: str) -> None:
    probe = ShellGame()
    batch = probe.training(generator(), ROWS) if kind == "training" else probe.test(generator(), ROWS, "adaptive")
    staying, seen = read(batch)
    assert len(seen.unique()) == len(staying.unique()) == CUPS
    for row in range(ROWS):
        for game in range(batch.target.shape[1]):
            places = on_a_table(staying[row, game].tolist(), int(seen[row, game]))
            assert places == batch.target[row, game].tolist()


@pytest.mark.parametrize("missed", range(ROUNDS))
def test_who_misses_a_round_loses_the_ball(missed: int) -> None:
    batch = ShellGame().test(generator(), 500, "adaptive")
    staying, seen = read(batch)
    attended = [number for number in range(ROUNDS) if number != missed]
    right = (follow(staying[:, :, attended], seen)[..., -1] == batch.target[..., -1]).float()
    assert abs(right.mean() - 1 / CUPS) < 4 * (CUPS * right.numel()) ** -0.5


def test_score_is_the_share_of_games_in_which_the_ball_is_never_lost() -> None:
    probe = ShellGame()
    batch = probe.test(generator(), ROWS, "adaptive")
    right = functional.one_hot(batch.target, CUPS).float()
    assert (probe.score(right.flatten(2), batch) == 1).all()
    assert (probe.score(right.roll(1, dims=-1).flatten(2), batch) == 0).all()
    for number in range(ROUNDS):
        lost = right.clone()
        lost[:, 0, number] = lost[:, 0, number].roll(1, dims=-1)
        assert (probe.score(lost.flatten(2), batch) == 1 - 1 / TESTED).all()


def test_every_round_is_learned() -> None:
    probe = ShellGame()
    batch = probe.training(generator(), ROWS)
    right = 20 * functional.one_hot(batch.target, CUPS).float()
    assert probe.loss(right.flatten(2), batch).max() < 1e-3
    for number in range(ROUNDS):
        one_wrong = right.clone()
        one_wrong[:, :, number] = one_wrong[:, :, number].roll(1, dims=-1)
        torch.testing.assert_close(probe.loss(one_wrong.flatten(2), batch), torch.full((ROWS, GAMES), 20.0 / ROUNDS))


def test_iterations_are_as_many_as_asked_for() -> None:
    torch.manual_seed(0)
    model, runs = build_trunk("recurrent_depth:width=16,tolerance=1e9,max_iterations=9", 5, 2), []
    assert isinstance(model.trunk, RecurrentDepth)
    model.trunk.core.register_forward_hook(lambda *_: runs.append(1))
    context, seen = torch.randn(3, 5), []
    for asked, expected in ((model, 1), (model.iterated(4), 4), (model.iterated(), 9)):
        runs.clear()
        outputs, iterations = asked.solve(context)
        assert len(runs) == expected
        assert (iterations == expected).all()
        seen.append(outputs)
    assert not torch.equal(seen[0], seen[1])
    assert model.trunk.max_iterations == 9, "the model itself stays as it is"
    fixed = build_trunk("mlp:width=16", 5, 2)
    assert torch.equal(fixed.iterated(4).solve(context).outputs, fixed.solve(context).outputs)


class Ending(ShellGame):
    """Only where the ball is at the end counts, which untrained answers hit at chance."""

    def score(self, outputs: Tensor, batch: Batch) -> Tensor:
        return (outputs[..., -CUPS:].argmax(-1) == batch.target[..., -1]).float().mean(1)


def test_every_number_of_iterations_is_tested_on_the_same_games() -> None:
    torch.manual_seed(0)
    probe, done = Ending(), []
    with torch.inference_mode():
        model = probe.build("recurrent_depth:width=16,tolerance=1e9,max_iterations=16")
        outcome = probe.evaluate(model, generator(), done.append)
        scores = outcome.scores
    assert tuple(scores) == probe.conditions
    assert all(len(score) == EPISODES for score in scores.values())
    assert scores["adaptive"] == scores["1 iteration"] != scores["16 iterations"] == scores["most"]
    assert outcome.measured == {"mean iterations, most": 16, "mean iterations, adaptive": 1}
    assert len(ITERATIONS) + 2 == len(done)
    assert done[-1] == 1
    assert abs(torch.tensor(scores["most"]).mean() - 1 / CUPS) < 0.1
