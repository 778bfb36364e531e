"""Every episode can be solved with a memory of what was observed, and with that alone."""

from collections.abc import Callable

import pytest
import torch
from torch import Generator, Tensor
from torch.nn import functional

from robomem.policies.memory.base import State
from robomem.probes import PROBES
from robomem.probes.base import Batch, Probe
from robomem.probes.cells import load_probe
from robomem.probes.copying import SYMBOLS as COPIED
from robomem.probes.interval import LONGEST
from robomem.probes.model import Model
from robomem.probes.recall import ITEMS, SYMBOLS
from robomem.probes.shell_game import CUPS, ROUNDS, follow

ROWS = 64


def generator(seed: int = 0) -> Generator:
    return Generator().manual_seed(seed)


def after_first(observation: Tensor, signs: slice) -> Tensor:
    """What the first tick showed, as the answer at all ticks."""
    return observation[:, :1, signs].expand(-1, observation.shape[1], -1)


def by_number(observation: Tensor, _: Tensor) -> Tensor:
    """Recall: look the symbol up that was shown with the number asked for."""
    symbols, numbers = observation[..., :SYMBOLS], observation[..., SYMBOLS : SYMBOLS + ITEMS]
    table = numbers.transpose(1, 2) @ symbols
    return observation[..., SYMBOLS + ITEMS :] @ table


def in_order(observation: Tensor, _: Tensor) -> Tensor:
    """Copying: the n-th signal is answered by the n-th marked symbol."""
    symbols, marked, signal = observation[..., :COPIED], observation[..., COPIED], observation[..., COPIED + 1]
    rank, wanted = marked.cumsum(1) * marked, signal.cumsum(1) * signal
    same = (wanted[:, :, None] == rank[:, None]) & (wanted > 0)[:, :, None]
    return same.float() @ symbols


def clock(observation: Tensor, dt: Tensor) -> Tensor:
    """Interval: what the cue says, less the measured time since its onset."""
    lit, wait = observation[..., 0], observation[..., 1].amax(1, keepdim=True) * LONGEST
    time = dt.cumsum(1)
    onset = time.gather(1, lit.argmax(1, keepdim=True))
    return (wait - (time - onset))[..., None]


def by_rounds(observation: Tensor, _: Tensor) -> Tensor:
    """Shell game: carry the ball from round to round."""
    shown = observation.unflatten(-1, (ROUNDS + 1, CUPS)).argmax(-1)
    return functional.one_hot(follow(shown[..., :-1], shown[..., -1]), CUPS).flatten(2).float()


SOLUTIONS: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "tmaze": lambda observation, dt: after_first(observation, slice(0, 2)),
    "recall": by_number,
    "interval": clock,
    "interval_lamp": clock,
    "counting": lambda observation, dt: functional.one_hot(observation[..., 0].cumsum(1).long(), 8).float(),
    "copy": in_order,
    "popgym_first": lambda observation, dt: after_first(observation, slice(None)),
    "popgym_previous": lambda observation, dt: observation.roll(3, dims=1),
    "shell_game": by_rounds,
}
CARDS = {name for name in SOLUTIONS if name.startswith("popgym")}
"""Neighbouring cards of one deck are not independent, and their probes are scored by returns."""

CASES = [(name, condition) for name in SOLUTIONS for condition in ("training", *load_probe(name).conditions[:3])]


def episodes(probe: Probe, condition: str, rows: int = ROWS) -> Batch:
    if condition == "training":
        return probe.training(generator(), rows)
    return probe.test(generator(), rows, condition)


def test_every_probe_has_a_solution() -> None:
    assert SOLUTIONS.keys() == PROBES.keys()


@pytest.mark.parametrize(("name", "condition"), CASES)
def test_memory_of_the_observations_solves_it(name: str, condition: str) -> None:
    probe = load_probe(name)
    batch = episodes(probe, condition)
    score = probe.score(SOLUTIONS[name](batch.observation, batch.dt), batch)
    perfect = 0.0 if probe.unit == "s" else 1.0
    torch.testing.assert_close(score, torch.full_like(score, perfect), atol=1e-4, rtol=0)


@pytest.mark.parametrize("name", sorted(SOLUTIONS.keys() - CARDS - {"interval", "interval_lamp", "shell_game"}))
def test_the_newest_observation_does_not_tell_the_answer(name: str) -> None:
    """For every observation at which an answer counts, the right answers are as mixed as chance has it."""
    probe = load_probe(name)
    batch = episodes(probe, probe.conditions[0], rows=4000)
    seen = batch.observation[batch.weight > 0]
    if name == "tmaze":
        assert not seen[:, :2].any()
        seen = (seen[:, -3:] > 0).float()  # the look of the corridor, of which no two are alike
    target = batch.target[batch.weight > 0]
    for kind in seen.unique(dim=0):
        answers = target[(seen == kind).all(1)]
        share = answers.bincount(minlength=probe.outputs) / len(answers)
        assert (share - 1 / probe.outputs).abs().max() < 5 * (0.25 / len(answers)) ** 0.5


@pytest.mark.parametrize("name", sorted(CARDS))
def test_popgym_agrees_with_the_answers(name: str) -> None:
    """The return of right answers, given by the tasks themselves, is 1."""
    probe = load_probe(name)

    class Player(Model):
        """Plays with a memory of all cards."""

        def init(self, rows: int) -> State:
            return {"seen": torch.zeros(rows, 0, 4)}

        def step(self, state: State, observation: Tensor, dt: Tensor) -> tuple[Tensor, State]:
            seen = torch.cat([state["seen"], observation[:, None]], dim=1)
            return SOLUTIONS[name](seen, dt)[:, -1], {"seen": seen}

    outcome = probe.evaluate(Player(), generator(), lambda share: None)
    for returns in outcome.scores.values():
        assert min(returns) > 0.999


def test_training_is_short() -> None:
    for name, longest in {
        "tmaze": 102,
        "recall": 28,
        "interval": 43,
        "interval_lamp": 43,
        "counting": 50,
        "copy": 33,
        "popgym_first": 51,
        "popgym_previous": 51,
        "shell_game": 4,
    }.items():
        probe = load_probe(name)
        assert max(probe.training(generator(seed), 1).dt.shape[1] for seed in range(100)) <= longest
