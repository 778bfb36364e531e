"""Laws that every memory module obeys: one suite, each module by its configuration file."""

from collections.abc import Iterator

import pytest
import torch
from safetensors.torch import load, save
from torch import Tensor

from robomem.factory import instantiate
from robomem.groups import options
from robomem.policies.memory.base import MemoryModule, State
from robomem.policies.tokens import Layout
from robomem.probes.model import module_config

LAYOUT = Layout(cameras=2, height=2, width=2, channels=8)
VARIANTS = (
    "flow:cell.prior=true",
    "flow:cell.jump=true",
    "flow:cell.oscillating=true",
    "flow:cell.latch=true",
    "flow:cell.prior=true,cell.jump=true,cell.oscillating=true",
    "gru:time=false",
    "ssm:time=false",
    "xlstm:cell.chunk=3",
)
"""Settings under which other code runs."""
B, T = 3, 7


@pytest.fixture(params=[*options("memory"), *VARIANTS])
def module(request: pytest.FixtureRequest) -> MemoryModule:
    """A module whose zero-initialised projections have been moved, so that everything matters."""
    torch.manual_seed(0)
    built = instantiate(module_config("memory", request.param), layout=LAYOUT)
    for parameter in built.parameters():
        if not parameter.any():
            torch.nn.init.normal_(parameter, std=0.1)
    return built


def inputs(seed: int = 1) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Tokens, dt, valid and is_first with padding and an episode that begins inside the window."""
    generator = torch.Generator().manual_seed(seed)
    tokens = torch.randn(B, T, LAYOUT.tokens, LAYOUT.channels, generator=generator)
    dt = 0.01 + torch.rand(B, T, generator=generator)
    valid = torch.ones(B, T, dtype=torch.bool)
    valid[1, 5:] = False
    is_first = torch.zeros(B, T, dtype=torch.bool)
    is_first[2, 3] = True
    return tokens, dt, valid, is_first


def by_steps(module: MemoryModule, state: State, *arguments: Tensor) -> tuple[Tensor, State]:
    """The protocol's definition of `scan`."""
    return MemoryModule.scan(module, state, *arguments)


def assert_equal(a: State, b: State, rows: Tensor | slice = slice(None)) -> None:
    """Compare two states to float32 accuracy."""
    assert a.keys() == b.keys()
    for name in a:
        torch.testing.assert_close(a[name][rows], b[name][rows], rtol=1e-4, atol=1e-5, msg=name)


def test_scan_equals_repeated_step(module: MemoryModule) -> None:
    tokens, dt, valid, is_first = inputs()
    out, state = module.scan(module.init(B), tokens, dt, valid, is_first)
    expected_out, expected_state = by_steps(module, module.init(B), tokens, dt, valid, is_first)
    torch.testing.assert_close(out, expected_out, rtol=1e-4, atol=1e-5)
    assert_equal(state, expected_state)


def test_fold_gives_the_state_of_a_scan(module: MemoryModule) -> None:
    _, expected = module.scan(module.init(B), *inputs())
    state = module.fold(module.init(B), *inputs())
    assert state.keys() == expected.keys()
    assert all(torch.equal(state[name], expected[name]) for name in expected)


def test_two_windows_equal_one(module: MemoryModule) -> None:
    arguments = inputs()
    whole, after_whole = module.scan(module.init(B), *arguments)
    first, state = module.scan(module.init(B), *(a[:, :3] for a in arguments))
    second, after = module.scan(state, *(a[:, 3:] for a in arguments))
    torch.testing.assert_close(torch.cat([first, second], dim=1), whole, rtol=1e-4, atol=1e-5)
    assert_equal(after, after_whole)


def test_padding_changes_nothing(module: MemoryModule) -> None:
    tokens, dt, valid, is_first = inputs()
    _, before = module.scan(module.init(B), tokens, dt, valid, is_first)
    none = torch.zeros_like(valid)
    out, after = module.scan(before, tokens, dt, none, none)
    assert torch.equal(out, tokens)
    for name in before:
        assert torch.equal(before[name], after[name]), name


def test_rows_do_not_see_each_other(module: MemoryModule) -> None:
    tokens, dt, valid, is_first = inputs()
    out, state = module.scan(module.init(B), tokens, dt, valid, is_first)
    changed = tokens.clone()
    changed[0] += 1
    other_out, other_state = module.scan(module.init(B), changed, dt, valid, is_first)
    torch.testing.assert_close(out[1:], other_out[1:], rtol=1e-5, atol=1e-6)
    assert_equal(state, other_state, slice(1, None))


def test_a_new_episode_forgets_and_its_neighbours_do_not(module: MemoryModule) -> None:
    tokens, dt, valid, _ = inputs()
    valid = torch.ones_like(valid)
    never = torch.zeros_like(valid)
    _, before = module.scan(module.init(B), tokens, dt, valid, never)
    start = never[:, :1].clone()
    start[1] = True
    fresh, after = module.scan(before, tokens[:, :1], dt[:, :1], valid[:, :1], start)
    alone, alone_after = module.step(module.init(B), tokens[:, 0], dt[:, 0])
    torch.testing.assert_close(fresh[1, 0], alone[1], rtol=1e-4, atol=1e-5)
    assert_equal(after, alone_after, torch.tensor([1]))
    _, untouched = module.scan(before, tokens[:, :1], dt[:, :1], valid[:, :1], never[:, :1])
    assert_equal(after, untouched, torch.tensor([0, 2]))


def test_shapes_do_not_depend_on_time(module: MemoryModule) -> None:
    state = module.init(B)
    shapes = {name: (value.shape, value.dtype) for name, value in state.items()}
    for seed in range(3):
        _, state = module.scan(state, *inputs(seed))
        assert {name: (value.shape, value.dtype) for name, value in state.items()} == shapes
        assert all(value.float().isfinite().all() for value in state.values())


def test_state_survives_serialisation(module: MemoryModule) -> None:
    tokens, dt, valid, is_first = inputs()
    _, state = module.scan(module.init(B), tokens, dt, valid, is_first)
    restored = load(save({name: value.contiguous() for name, value in state.items()}))
    for name in state:
        assert torch.equal(state[name], restored[name])
    out, _ = module.step(state, tokens[:, 0], dt[:, 0])
    again, _ = module.step({name: restored[name] for name in state}, tokens[:, 0], dt[:, 0])
    assert torch.equal(out, again)


def test_every_parameter_gets_a_gradient(module: MemoryModule) -> None:
    tokens, dt, valid, is_first = inputs()
    out, _ = module.scan(module.init(B), tokens, dt, valid, is_first)
    if not list(module.parameters()):
        return
    out.square().sum().backward()
    dead = [name for name, p in module.named_parameters() if p.grad is None or not p.grad.any()]
    assert not dead


def test_a_cue_reaches_later_tokens(module: MemoryModule) -> None:
    """What was seen changes what comes later, unless the module is the memoryless control."""
    tokens, dt, valid, _ = inputs()
    valid, never = torch.ones_like(valid), torch.zeros_like(valid)
    other = tokens.clone()
    other[:, 0] = other[:, 0].flip(0)
    out, _ = module.scan(module.init(B), tokens, dt, valid, never)
    changed, _ = module.scan(module.init(B), other, dt, valid, never)
    difference = (out[:, -1] - changed[:, -1]).abs().max()
    assert (difference == 0) == (type(module).__name__ == "NoMemory")


@pytest.fixture
def threads() -> Iterator[None]:
    """Leaves the number of threads as it was."""
    before = torch.get_num_threads()
    yield
    torch.set_num_threads(before)


@pytest.mark.usefixtures("threads")
def test_threads_do_not_matter(module: MemoryModule) -> None:
    found = []
    for count in (1, 2):
        torch.set_num_threads(count)
        found.append(module.scan(module.init(B), *inputs()))
    (out, state), (other, other_state) = found
    torch.testing.assert_close(out, other, rtol=1e-4, atol=1e-5)
    assert_equal(state, other_state)
