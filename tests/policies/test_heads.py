"""Every objective on every trunk, built from the configuration files."""

from collections.abc import Mapping
from itertools import product
from pathlib import Path
from typing import Any

import pytest
import torch
import yaml
from torch import Tensor

from robomem.contract import Prefix
from robomem.errors import RobomemError
from robomem.factory import instantiate
from robomem.policies.heads.base import Head
from robomem.policies.heads.recurrent_depth import RecurrentDepth
from robomem.policies.heads.trunk import Trunk

CONFIGS = Path(__file__).parents[2] / "configs"
B, C, H, A = 5, 12, 4, 3
GENERATIVE = ("diffusion", "flow_matching")


def options(group: str) -> list[str]:
    return sorted(path.stem for path in (CONFIGS / group).glob("*.yaml"))


def part(group: str, option: str) -> dict[str, Any]:
    values = yaml.safe_load((CONFIGS / group / f"{option}.yaml").read_text())
    values.pop("defaults", None)
    return values


def make_head(objective: str, trunk: str = "mlp", sizes: tuple[int, int, int] = (C, H, A), **settings: Any) -> Head:
    torch.manual_seed(0)
    config = part("head", objective) | {"trunk": part("trunk", trunk) | {"width": 32}} | settings
    return instantiate(config, context=sizes[0], horizon=sizes[1], action=sizes[2])


def make_recurrent(**settings: Any) -> RecurrentDepth:
    torch.manual_seed(0)
    return instantiate(part("trunk", "recurrent_depth") | settings, inputs=3, context=C, outputs=A)()


def draw(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def sample(head: Head, context: Tensor, prefix: Prefix | None = None, seed: int = 1) -> Tensor:
    with torch.no_grad():
        return head.sample(context, draw(len(context), *head.shape, seed=seed), prefix).actions


@pytest.fixture(params=list(product(options("head"), options("trunk"))), ids="-".join)
def parts(request: pytest.FixtureRequest) -> tuple[str, str]:
    """An objective and a trunk."""
    return request.param


def test_sample_is_a_function_of_context_and_noise(parts: tuple[str, str]) -> None:
    head, context = make_head(*parts), draw(B, C)
    state = torch.get_rng_state()
    chunk = sample(head, context)
    assert chunk.shape == (B, H, A)
    assert torch.equal(torch.get_rng_state(), state)
    torch.manual_seed(99)
    assert torch.equal(sample(head, context), chunk)
    assert torch.equal(sample(head, context, seed=2), chunk) == (parts[0] not in GENERATIVE)


def test_rows_know_nothing_of_each_other(parts: tuple[str, str]) -> None:
    head, context = make_head(*parts), draw(B, C)
    others = context + (torch.arange(B) > 0)[:, None]
    assert torch.equal(sample(head, others)[0], sample(head, context)[0])
    assert not torch.equal(sample(head, others)[1:], sample(head, context)[1:])


@pytest.mark.parametrize("autocast", [False, True])
def test_every_parameter_learns_within_three_steps(parts: tuple[str, str], autocast: bool) -> None:
    settings: dict[str, Any] = {"context_dropout": 0.5} if parts[0] in GENERATIVE else {}
    head = make_head(*parts, **settings)
    if isinstance(head.trunk, RecurrentDepth):
        head.trunk.draw_iterations = lambda: 9  # most of them without a gradient
    optimizer, alive = torch.optim.SGD(head.parameters(), lr=0.1), set()
    for seed in range(3):
        with torch.autocast("cpu", torch.bfloat16, enabled=autocast):
            loss = head.loss(draw(B, C, seed=seed), draw(B, H, A, seed=seed).clamp(-1, 1), torch.ones(B, H))
        assert loss.isfinite()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        alive |= {name for name, p in head.named_parameters() if p.grad is not None and p.grad.any()}
    assert alive == {name for name, _ in head.named_parameters()}


def test_chunks_without_weight_teach_nothing(parts: tuple[str, str]) -> None:
    head, context = make_head(*parts), draw(B, C)
    weight = torch.ones(B, H)
    weight[2:] = 0
    losses = []
    for fill in (0.0, 0.9):
        actions = draw(B, H, A)
        actions[2:] = fill
        torch.manual_seed(7)
        losses.append(head.loss(context, actions, weight))
    assert torch.equal(*losses)


def test_prefix_is_honoured_and_the_rest_goes_on_from_it(parts: tuple[str, str]) -> None:
    head, context = make_head(*parts), draw(B, C)
    free, committed = sample(head, context), draw(B, H, A, seed=5)
    weight = torch.tensor([1.0, 1.0, 0.5, 0.0]).expand(B, H)
    chunk = sample(head, context, Prefix(committed, weight))
    assert torch.equal(chunk[:, :2], committed[:, :2])
    assert ((chunk - committed)[:, 2].abs().mean()) < (free - committed)[:, 2].abs().mean()
    assert torch.equal(chunk[:, 3], free[:, 3]) == (parts[0] not in GENERATIVE)
    assert torch.equal(sample(head, context, Prefix(committed, torch.zeros(B, H))), free)


@pytest.mark.parametrize("objective", GENERATIVE)
@pytest.mark.parametrize("trunk", options("trunk"))
def test_a_context_is_encoded_once(objective: str, trunk: str, monkeypatch: pytest.MonkeyPatch) -> None:
    head, encoded = make_head(objective, trunk, draws=6), []
    encode = head.trunk.encode
    monkeypatch.setattr(head.trunk, "encode", lambda context: encoded.append(len(context)) or encode(context))
    head.loss(draw(B, C), draw(B, H, A), torch.ones(B, H))
    sample(head, draw(B, C))
    assert encoded == [B, B]


@pytest.mark.parametrize("trunk", options("trunk"))
@pytest.mark.parametrize("method", ["forward", "solve"])
def test_inputs_of_one_context_never_see_each_other(trunk: str, method: str) -> None:
    network: Trunk = make_head("diffusion", trunk).trunk
    inputs = draw(B, 6, H * A + 32).requires_grad_()
    found = getattr(network, method)(inputs, network.encode(draw(B, C)))
    outputs = found if method == "forward" else found.outputs
    (gradient,) = torch.autograd.grad(outputs[2, 3].sum(), inputs)
    seen = gradient.abs().sum(-1) > 0
    assert seen[2, 3]
    assert seen.sum() == 1


@pytest.mark.parametrize("objective", GENERATIVE)
def test_guidance_moves_away_from_the_null_context(objective: str) -> None:
    heads: Mapping[float, Head] = {
        scale: make_head(objective, context_dropout=0.1, guidance=scale) for scale in (1.0, 1.0 + 1e-7, 3.0)
    }
    plain, near, far = (sample(head, draw(B, C)) for head in heads.values())
    assert torch.equal(plain, sample(make_head(objective), draw(B, C)))
    torch.testing.assert_close(near, plain, rtol=1e-4, atol=1e-5)
    assert (far - plain).abs().mean() > 1e-3
    null = torch.zeros(B, C)
    torch.testing.assert_close(sample(heads[3.0], null), sample(heads[1.0], null))


def test_guidance_without_a_null_context_is_refused() -> None:
    with pytest.raises(RobomemError, match=r"guidance=2.0 needs a policy trained without .* policy.head.context_dro"):
        make_head("diffusion", guidance=2.0)


@pytest.mark.parametrize("objective", GENERATIVE)
def test_both_modes_are_hit(objective: str) -> None:
    head = make_head(objective, sizes=(1, 1, 1), draws=8)
    optimizer = torch.optim.Adam(head.parameters(), lr=5e-3)
    for _ in range(250):
        actions = 0.6 * (2.0 * torch.randint(2, (32, 1, 1)) - 1)
        loss = head.loss(torch.zeros(32, 1), actions, torch.ones(32, 1))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    found = sample(head, torch.zeros(256, 1)).flatten()
    for mode in (-0.6, 0.6):
        assert ((found - mode).abs() < 0.2).float().mean() > 0.3


def test_training_draws_iterations_from_the_global_generator() -> None:
    trunk = make_recurrent(mean_iterations=6.0, max_iterations=12)
    torch.manual_seed(3)
    drawn = [trunk.draw_iterations() for _ in range(500)]
    torch.manual_seed(3)
    assert [trunk.draw_iterations() for _ in range(500)] == drawn
    assert min(drawn) >= 1
    assert max(drawn) == 12
    assert 5 < sum(drawn) / 500 < 7


def test_gradient_passes_through_the_last_iterations_only(monkeypatch: pytest.MonkeyPatch) -> None:
    trunk, recorded = make_recurrent(backprop=3), []
    trunk.core.register_forward_hook(lambda *_: recorded.append(torch.is_grad_enabled()))
    for iterations, expected in ((7, [False] * 4 + [True] * 3), (2, [True] * 2)):
        monkeypatch.setattr(trunk, "draw_iterations", lambda count=iterations: count)
        recorded.clear()
        trunk(draw(B, 2, 3), trunk.encode(draw(B, C)))
        assert recorded == expected


def test_each_row_stops_when_it_has_settled() -> None:
    trunk = make_recurrent(tolerance=0.02, max_iterations=40)
    inputs, code = draw(64, 2, 3), trunk.encode(3 * draw(64, C))
    with torch.no_grad():
        settled = trunk.solve(inputs, code)
        trunk.tolerance = 0.0
        patient = trunk.solve(inputs, code)
    assert settled.iterations.max() < 40
    assert len(settled.iterations.unique()) > 1
    assert (patient.iterations == 40).all()
    torch.testing.assert_close(settled.outputs, patient.outputs, rtol=0, atol=0.05)


def test_impossible_iterations_are_refused() -> None:
    with pytest.raises(RobomemError, match=r"mean_iterations=9.0 must be more than 1 and at most max_iterations=4"):
        make_recurrent(mean_iterations=9.0, max_iterations=4)
