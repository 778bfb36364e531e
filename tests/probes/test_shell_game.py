"""The shell game: its answers are those of cups on a table, and every round counts."""

import pytest
import torch
from torch import Generator, Tensor
from torch.nn import functional

from robomem.policies.heads.recurrent_depth import RecurrentDepth
from robomem.probes.base import EPISODES, Batch
from robomem.probes.shell_game import ITERATIONS, ORDERS, ROUNDS, TESTED, ShellGame, follow
from robomem.probes.trunk import build_trunk

ROWS = 16


def generator(seed: int = 0) -> Generator:
    return Generator().manual_seed(seed)


def read(batch: Batch) -> tuple[Tensor, Tensor, Tensor]:
    """What observations show: the moves of all rounds, the round before which the cups are seen, and their order."""
    rounds, first, order = batch.observation.split([ROUNDS * len(ORDERS), ROUNDS, len(ORDERS)], dim=-1)
    return rounds.unflatten(-1, (ROUNDS, len(ORDERS))).argmax(-1), first.argmax(-1), order.argmax(-1)


def on_a_table(moves: list[int], first: int, order: int) -> int:
    """How the cups stand at the end: in each round every one of them is put elsewhere."""
    table = list(ORDERS[order])
    for places in (ORDERS[number] for number in moves[first:]):
        lifted = list(table)
        for old, new in enumerate(places):
            table[new] = lifted[old]
    return ORDERS.index(tuple(table))


@pytest.mark.parametrize("kind", ["training", "test"])
def test_answers_are_those_of_cups_on_a_table(kind: str) -> None:
    probe = ShellGame()
    batch = probe.training(generator(), ROWS) if kind == "training" else probe.test(generator(), ROWS, "adaptive")
    moves, first, order = read(batch)
    assert len(moves.unique()) == len(order.unique()) == len(ORDERS) == 6
    for row in range(ROWS):
        for game in range(batch.target.shape[1]):
            end = on_a_table(moves[row, game].tolist(), int(first[row, game]), int(order[row, game]))
            assert end == batch.target[row, game]
    assert set(first.unique().tolist()) == (set(range(ROUNDS)) if kind == "training" else {0})


@pytest.mark.parametrize("missed", range(ROUNDS))
def test_who_misses_a_round_is_at_chance(missed: int) -> None:
    batch = ShellGame().test(generator(), 500, "adaptive")
    moves, first, order = read(batch)
    seen = [number for number in range(ROUNDS) if number != missed]
    right = (follow(moves[:, :, seen], first, order) == batch.target).float()
    assert abs(right.mean() - 1 / len(ORDERS)) < 4 * (len(ORDERS) * right.numel()) ** -0.5


def test_score_is_the_share_of_right_orders() -> None:
    probe = ShellGame()
    batch = probe.test(generator(), ROWS, "adaptive")
    right = functional.one_hot(batch.target, len(ORDERS)).float()
    assert (probe.score(right, batch) == 1).all()
    assert (probe.score(right.roll(1, dims=-1), batch) == 0).all()
    right[:, 0] = right[:, 0].roll(1, dims=-1)
    assert (probe.score(right, batch) == 1 - 1 / TESTED).all()


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


def test_every_number_of_iterations_is_tested_on_the_same_games() -> None:
    torch.manual_seed(0)
    probe, done = ShellGame(), []
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
    assert abs(torch.tensor(scores["most"]).mean() - 1 / len(ORDERS)) < 0.1
