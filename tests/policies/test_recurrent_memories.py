"""Recurrent memories: any integrator, any precision around them, and learning from the first steps on."""

from itertools import product
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from robomem.factory import instantiate
from robomem.groups import options
from robomem.policies.memory.base import MemoryModule
from robomem.policies.memory.recurrent import TICK, RecurrentMemory
from robomem.policies.memory.xlstm import MLSTM
from robomem.policies.tokens import Layout
from robomem.probes.model import module_config

LAYOUT = Layout(cameras=2, height=2, width=2, channels=8)
B, T = 2, 9
INTEGRATORS = ("ContextTokens", "AdaptiveNorm", "ScratchpadOffset")
INTEGRATED = [name for name in options("memory") if "integrator" in module_config("memory", name)]
RECURRENT = [name for name in options("memory") if "cell" in module_config("memory", name)]


def make(name: str, **settings: Any) -> MemoryModule:
    torch.manual_seed(0)
    return instantiate(module_config("memory", name) | settings, layout=LAYOUT)


def integrated(name: str, integrator: str) -> MemoryModule:
    """A module with another integrator than it comes with."""
    config = module_config("memory", name)["integrator"]
    return make(name, integrator=config | {"_target_": f"robomem.policies.memory.integrators.{integrator}"})


def awake(module: MemoryModule) -> MemoryModule:
    """The same module, its zero-initialised projections moved."""
    for parameter in module.parameters():
        if not parameter.any():
            nn.init.normal_(parameter, std=0.1)
    return module


def draw(seed: int = 0) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Tokens, dt, valid and is_first with a gap, an end and a start."""
    generator = torch.Generator().manual_seed(seed)
    tokens = torch.randn(B, T, LAYOUT.tokens, LAYOUT.channels, generator=generator)
    dt = 0.02 + 0.1 * torch.rand(B, T, generator=generator)
    valid, is_first = torch.ones(B, T, dtype=torch.bool), torch.zeros(B, T, dtype=torch.bool)
    valid[0, 3:5], valid[1, 7:] = False, False
    is_first[0, 6] = True
    return tokens, dt, valid, is_first


@pytest.mark.parametrize(("name", "integrator"), product(INTEGRATED, INTEGRATORS))
def test_any_integrator_serves_any_module(name: str, integrator: str) -> None:
    module, arguments = awake(integrated(name, integrator)), draw()
    tokens, _, valid, _ = arguments
    enriched, state = module.scan(module.init(B), *arguments)
    expected, expected_state = MemoryModule.scan(module, module.init(B), *arguments)
    torch.testing.assert_close(enriched, expected, rtol=1e-4, atol=1e-5)
    for key, value in state.items():
        torch.testing.assert_close(value, expected_state[key], rtol=1e-4, atol=1e-5)
    assert torch.equal(enriched[~valid], tokens[~valid])
    changed = (enriched != tokens).any(-1)
    assert changed[valid][:, -1].all()
    assert changed[valid][:, :-1].any() == (integrator != "ScratchpadOffset")


@pytest.mark.parametrize(("name", "integrator"), product(RECURRENT, INTEGRATORS))
def test_tokens_pass_unchanged_at_first_and_soon_all_of_it_learns(name: str, integrator: str) -> None:
    """As it is initialised, every parameter has had a gradient within three steps of sign descent."""
    module = integrated(name, integrator)
    arguments = draw()
    enriched, _ = module.scan(module.init(B), *arguments)
    assert torch.equal(enriched, arguments[0])
    parameters = dict(module.named_parameters())
    target, alive = torch.randn(enriched.shape), set()
    for _ in range(3):
        enriched, _ = module.scan(module.init(B), *arguments)
        gradients = torch.autograd.grad((enriched - target).square().mean(), list(parameters.values()))
        with torch.no_grad():
            for (key, parameter), gradient in zip(parameters.items(), gradients, strict=True):
                alive |= {key} if gradient.any() else set()
                parameter -= 0.01 * gradient.sign()
    assert alive == set(parameters)


@pytest.mark.parametrize("name", RECURRENT)
def test_autocast_does_not_change_the_state(name: str) -> None:
    module, (tokens, *rest) = awake(make(name)), draw()
    tokens = tokens.bfloat16().float()
    _, expected = module.scan(module.init(B), tokens, *rest)
    with torch.autocast("cpu", torch.bfloat16):
        for seen in (tokens, tokens.bfloat16()):
            enriched, state = module.scan(module.init(B), seen, *rest)
            assert enriched.isfinite().all()
            for key, value in state.items():
                assert value.dtype == torch.float32, key
                assert torch.equal(value, expected[key]), key
        _, after = module.step(module.init(B), tokens[:, 0], rest[0][:, 0])
    assert all(value.dtype == torch.float32 for value in after.values())


@pytest.mark.parametrize("name", RECURRENT)
def test_gradients_of_a_scan_are_those_of_its_steps(name: str) -> None:
    module, (tokens, *rest) = awake(make(name)), draw()
    found = []
    for scan in (module.scan, lambda *arguments: MemoryModule.scan(module, *arguments)):
        seen = tokens.clone().requires_grad_()
        enriched, state = scan(module.init(B), seen, *rest)
        loss = enriched.square().sum() + sum(value.square().sum() for value in state.values())
        found.append(torch.autograd.grad(loss, [seen, *module.parameters()]))
    for ours, theirs in zip(*found, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-3, atol=1e-4 * float(theirs.abs().max()))


@pytest.mark.parametrize("name", RECURRENT)
def test_time_can_be_taken_away(name: str) -> None:
    timed, untimed = awake(make(name)), awake(make(name, time=False))
    tokens, dt, valid, is_first = draw()
    for module, matters in ((timed, True), (untimed, False)):
        results = [module.scan(module.init(B), tokens, each, valid, is_first) for each in (dt, 3 * dt)]
        (a, state), (b, _) = results
        assert torch.equal(a, b) != matters
        later = module.advance(state, dt[:, 0])
        if not matters:
            assert all(torch.equal(later[key], state[key]) for key in state)
    ticks = torch.full_like(dt, TICK)
    a, _ = timed.scan(timed.init(B), tokens, ticks, valid, is_first)
    b, _ = untimed.scan(untimed.init(B), tokens, dt, valid, is_first)
    assert torch.equal(a, b)


@pytest.mark.parametrize("name", RECURRENT)
def test_long_gaps_and_long_windows_stay_finite(name: str) -> None:
    module = awake(make(name))
    assert isinstance(module, RecurrentMemory)
    ticks = 600
    tokens = 10 * torch.randn(1, ticks, LAYOUT.tokens, LAYOUT.channels)
    dt = torch.full((1, ticks), TICK)
    dt[0, 0], dt[0, 300] = 0.0, 3600.0
    valid = torch.ones(1, ticks, dtype=torch.bool)
    enriched, state = module.scan(module.init(1), tokens, dt, valid, ~valid)
    enriched.square().mean().backward()
    assert all(value.isfinite().all() for value in state.values())
    assert all(p.grad is not None and p.grad.isfinite().all() for p in module.parameters())


def test_exponential_gates_do_not_overflow() -> None:
    """Input gates of exp(300), which float32 cannot hold, at either end of the window."""
    cell = MLSTM(6, heads=2, size=4, chunk=4)
    with torch.no_grad():
        cell.gates.weight[:2] = 0
        cell.gates.weight[:2, 0] = 300
    inputs, dt = torch.randn(1, T, 6), torch.full((1, T), TICK)
    valid = torch.ones(1, T, dtype=torch.bool)
    for loud in (0, T - 1):
        inputs[..., 0] = 0
        inputs[0, loud, 0] = 1
        features, state = cell.scan(cell.init(1), inputs, dt, valid, ~valid)
        assert features.isfinite().all()
        expected = cell.init(1)
        for t in range(T):
            output, expected = cell.step(expected, inputs[:, t], dt[:, t])
            torch.testing.assert_close(features[:, t], output, rtol=1e-4, atol=1e-5)
        for key, value in state.items():
            torch.testing.assert_close(value, expected[key], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", [*RECURRENT, "flow:cell.jump=true", "flow:cell.prior=true"])
def test_ten_seconds_reach_back_from_the_start(name: str) -> None:
    """Before anything is learned the newest state depends on the first observation: gates do not start half open."""
    module = make(name)
    assert isinstance(module, RecurrentMemory)
    ticks = 200
    inputs = torch.randn(2, ticks, module.norm.normalized_shape[0], requires_grad=True)
    valid = torch.ones(2, ticks, dtype=torch.bool)
    features, _ = module.cell.scan(module.cell.init(2), inputs, torch.full((2, ticks), TICK), valid, ~valid)
    (gradient,) = torch.autograd.grad((features[:, -1] * torch.randn_like(features[:, -1])).sum(), inputs)
    influence = gradient.norm(dim=-1).mean(0)
    assert influence[0] > 1e-3 * influence.max()
