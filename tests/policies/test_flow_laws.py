"""Laws of time: what continuous memories owe to measured seconds."""

import math
from itertools import pairwise

import pytest
import torch
from torch import Tensor

from robomem.errors import RobomemError
from robomem.policies.memory.base import State
from robomem.policies.memory.ffm import FFM
from robomem.policies.memory.flow import Flow, to_complex
from robomem.policies.memory.gru_d import GRUD
from robomem.policies.memory.recurrent import TIME_SCALES, Cell
from robomem.policies.memory.ssm import SSM

INPUTS, HIDDEN = 6, 8
CLOCKS = {
    "flow": lambda: Flow(INPUTS, hidden=HIDDEN),
    "flow-oscillating": lambda: Flow(INPUTS, hidden=HIDDEN, oscillating=True),
    "flow-latch": lambda: Flow(INPUTS, hidden=HIDDEN, latch=True),
    "ssm": lambda: SSM(INPUTS, hidden=HIDDEN),
    "ffm": lambda: FFM(INPUTS, traces=4, contexts=2, hidden=HIDDEN),
    "gru_d": lambda: GRUD(INPUTS, hidden=HIDDEN),
}
FLOWS = ("flow", "flow-oscillating", "flow-latch")


@pytest.fixture(params=CLOCKS)
def cell(request: pytest.FixtureRequest) -> Cell:
    """A cell whose state moves between observations."""
    torch.manual_seed(0)
    return CLOCKS[request.param]()


@pytest.fixture(params=FLOWS)
def flow(request: pytest.FixtureRequest) -> Flow:
    torch.manual_seed(0)
    cell = CLOCKS[request.param]()
    assert isinstance(cell, Flow)
    return cell


def draw(rows: int, ticks: int, *, period: float = 0.05) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Inputs, jittered dt, valid and is_first."""
    generator = torch.Generator().manual_seed(1)
    inputs = 3 * torch.randn(rows, ticks, INPUTS, generator=generator)
    dt = period * (0.5 + torch.rand(rows, ticks, generator=generator))
    valid = torch.ones(rows, ticks, dtype=torch.bool)
    return inputs, dt, valid, ~valid


def after(cell: Cell, rows: int, ticks: int = 5) -> State:
    """A state after some observations."""
    with torch.no_grad():
        return cell.scan(cell.init(rows), *draw(rows, ticks))[1]


def test_intervals_compose(cell: Cell) -> None:
    """Ten thousand random splits, from milliseconds to minutes."""
    splits = 10_000
    state = after(cell, splits)
    generator = torch.Generator().manual_seed(2)
    first, second = 10 ** (5 * torch.rand(2, splits, generator=generator) - 3)
    with torch.no_grad():
        twice = cell.advance(cell.advance(state, first), second)
        once = cell.advance(state, first + second)
    for name in state:
        torch.testing.assert_close(twice[name], once[name], rtol=1e-5, atol=1e-5, msg=name)


def test_no_time_changes_nothing(cell: Cell) -> None:
    state = after(cell, 3)
    unchanged = cell.advance(state, torch.zeros(3))
    for name in state:
        assert torch.equal(unchanged[name], state[name]), name


def test_a_step_is_an_advance_and_an_observation(cell: Cell) -> None:
    state = after(cell, 3)
    inputs, dt, *_ = draw(3, 1)
    early = cell.advance(state, 0.3 * dt[:, 0])
    features, _ = cell.step(state, inputs[:, 0], dt[:, 0])
    split, _ = cell.step(early, inputs[:, 0], 0.7 * dt[:, 0])
    torch.testing.assert_close(split, features, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("option", [{}, {"oscillating": True}, {"latch": True}])
@pytest.mark.parametrize("factor", [1e-3, 60.0, 1e3])
def test_the_unit_of_time_is_a_convention(option: dict[str, bool], factor: float) -> None:
    """In milliseconds or minutes, with time scales in the same unit, the same is remembered."""
    features = []
    for unit in (1.0, factor):
        torch.manual_seed(0)
        bounds = (unit * TIME_SCALES[0], unit * TIME_SCALES[1])
        cell = Flow(INPUTS, hidden=HIDDEN, prior=True, jump=True, time_scales=bounds, **option)
        inputs, dt, valid, is_first = draw(4, 50)
        features.append(cell.scan(cell.init(4), inputs, unit * dt, valid, is_first)[0])
    torch.testing.assert_close(*features, rtol=1e-5, atol=1e-5)


def test_what_is_latched_stays_bit_for_bit() -> None:
    cell = Flow(INPUTS, hidden=HIDDEN, latch=True)
    with torch.no_grad():
        cell.course.bias[HIDDEN:] = torch.tensor([9.0, -9.0]).repeat(HIDDEN // 2)
        state = cell.scan(cell.init(4), *draw(4, 1))[1]
        state = {**state, "memory": torch.rand_like(state["memory"])}
        later = cell.advance(cell.scan(state, *draw(4, 500, period=1e3))[1], torch.full((4,), 1e9))
    stays = state["memory"] == later["memory"]
    assert stays[:, ::2].all()
    assert not stays[:, 1::2].any()


def test_memory_is_bounded_by_its_contents(flow: Flow) -> None:
    inputs, dt, valid, is_first = draw(4, 300, period=2.0)
    with torch.no_grad():
        contents, _ = flow.split(flow.course(inputs))
        memory, _ = flow.scan(flow.init(4), inputs, dt, valid, is_first)
    if flow.oscillating:
        memory = to_complex(memory)
    assert (memory.abs().amax(1) <= contents.abs().amax(1) * (1 + 1e-5)).all()
    assert memory.abs().max() > 0.1 * contents.abs().max()


def test_how_often_one_looks_at_a_still_scene_does_not_matter(flow: Flow) -> None:
    """At 10 and at 30 Hz, and with frames dropped, the same is remembered at the same time."""
    scene = draw(2, 1)[0]

    def watch(period: float, ticks: int) -> Tensor:
        state = flow.init(2)
        inputs, dt = scene.expand(2, ticks, INPUTS), torch.full((2, ticks), period)
        valid = torch.ones(2, ticks, dtype=torch.bool)
        return flow.scan(state, inputs, torch.cat([torch.zeros(2, 1), dt[:, 1:]], dim=1), valid, ~valid)[0][:, -1]

    with torch.no_grad():
        slow, fast, twice = watch(0.1, 31), watch(1 / 30, 91), watch(3.0, 2)
    torch.testing.assert_close(fast, slow, rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(twice, slow, rtol=1e-4, atol=1e-5)


def test_memory_approaches_its_content_and_never_turns_back() -> None:
    torch.manual_seed(0)
    flow = Flow(INPUTS, hidden=HIDDEN)
    state = after(flow, 3)
    distances = []
    for seconds in (0.0, 0.01, 0.1, 1.0, 10.0, 100.0, 1e4):
        later = flow.advance(state, torch.full((3,), seconds))
        distances.append((later["memory"] - flow.split(later["course"])[0]).abs())
    assert all((later <= sooner).all() for sooner, later in pairwise(distances))
    assert (distances[-1] < 1e-6).all()


def test_time_scales_begin_between_a_tick_and_minutes() -> None:
    torch.manual_seed(0)
    flow = Flow(INPUTS, hidden=128)
    scales = 1 / flow.split(after(flow, 4)["course"])[1]
    assert scales.min() < 2 * TIME_SCALES[0]
    assert scales.max() > TIME_SCALES[1] / 2
    middle = math.sqrt(TIME_SCALES[0] * TIME_SCALES[1])
    assert 0.3 < (scales < middle).float().mean() < 0.7
    assert (scales.std(0) / scales.mean(0)).median() < 0.5  # hardly dependent on the input


@pytest.mark.parametrize("build", [lambda: Flow(INPUTS, hidden=7, oscillating=True), lambda: SSM(INPUTS, hidden=7)])
def test_odd_channels_cannot_be_pairs(build: object) -> None:
    assert callable(build)
    with pytest.raises(RobomemError, match="hidden=7 is odd; use an even number"):
        build()
