"""Every head with every memory, built from the configuration files into a whole policy."""

from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

import pytest
import torch
import yaml
from memories import awake
from windows import EMBODIMENT, A, B, H, P, assert_trained_as_acted, make_window, observed, untaught, windows

from robomem import checkpoint
from robomem.contract import Observation, Policy, Prefix
from robomem.errors import RobomemError
from robomem.policies.build import build_policy
from robomem.policies.encoders.small import SmallEncoder
from robomem.policies.policy import MemoryPolicy, redrawn
from robomem.sim.embodiment import MIKASA
from robomem.spec import PolicySpec
from robomem.statistics import Statistics, VectorStatistics

CONFIGS = Path(__file__).parents[2] / "configs"
STATISTICS = Statistics(
    proprio=VectorStatistics(mean=(0.1,) * P, std=(0.5,) * P, low=(-2.0,) * P, high=(2.0,) * P),
    action=VectorStatistics(mean=(0.0,) * A, std=(0.5,) * A, low=(-1.0,) * A, high=(0.5,) * A),
    ticks=100,
)
SPEC = PolicySpec(
    **vars(EMBODIMENT),
    horizon=H,
    observe_period=EMBODIMENT.action_dt,
    max_gap=1.0,
    statistics_hash=STATISTICS.digest,
)


def options(group: str) -> list[str]:
    return sorted(path.stem for path in (CONFIGS / group).glob("*.yaml"))


def part(group: str, option: str) -> Any:
    return yaml.safe_load((CONFIGS / group / f"{option}.yaml").read_text())


def head_with(objective: str, **settings: Any) -> dict[str, Any]:
    return {key: value for key, value in part("head", objective).items() if key != "defaults"} | settings


def policy_config(memory: str, head: str, trunk: str = "mlp", past: int = 0) -> dict[str, Any]:
    return {
        "name": f"{memory} {head}",
        "horizon": H,
        "past_horizon": past,
        "outcome_weight": 0.2,
        "keyframe_weight": 10.0,
        "encoder": part("encoder", "small"),
        "memory": part("memory", memory),
        "head": head_with(head, trunk=part("trunk", trunk)),
    }


def make_policy(memory: str, head: str, trunk: str = "mlp", past: int = 0) -> MemoryPolicy:
    """A policy whose zero-initialised projections have been moved, so that everything matters."""
    torch.manual_seed(0)
    return awake(build_policy(policy_config(memory, head, trunk, past), SPEC, STATISTICS))


MEMORIES = [(memory, "regression", "mlp") for memory in options("memory")]
HEADS = list(product(["none"], options("head"), options("trunk")))


@pytest.fixture(params=list(dict.fromkeys(MEMORIES + HEADS)), ids="-".join)
def parts(request: pytest.FixtureRequest) -> tuple[str, str, str]:
    """A memory, a head and its trunk: every memory with one head, every head with every trunk."""
    return request.param


@pytest.fixture
def policy(parts: tuple[str, str, str]) -> MemoryPolicy:
    return make_policy(*parts)


def test_training_sees_what_acting_sees(policy: MemoryPolicy) -> None:
    assert isinstance(policy, Policy)
    assert_trained_as_acted(policy, windows())


@pytest.mark.parametrize("middle", [(20, 30), (64.5, 64.5), (100, 17.5)])  # inside a patch, and across four
def test_a_patch_knows_where_its_thing_is(middle: tuple[float, float]) -> None:
    """Coloured squares on a grey table: the patch of the strongest colour says where its square's middle is."""
    image = torch.full((1, 128, 128, 3), 120, dtype=torch.uint8)
    for (row, column), colour in {middle: (250, 0, 0), (middle[0], middle[1] + 20): (0, 160, 40)}.items():
        image[:, round(row - 3) : round(row + 3), round(column - 3) : round(column + 3)] = torch.tensor(
            colour, dtype=torch.uint8
        )
    encoder = SmallEncoder(spec=replace(SPEC, cameras=MIKASA.cameras), statistics=STATISTICS)
    percept = encoder(Observation({"top": image, "wrist": image}, torch.zeros(1, P), ("",)))
    hue = percept.tokens[0, : encoder.layout.patches // 2, -4]  # red against grey
    pixels = (percept.places[0, hue.argmax()] + 1) * 64
    torch.testing.assert_close(pixels, torch.tensor(middle, dtype=torch.float32), atol=0.5, rtol=0)


def test_every_parameter_learns(policy: MemoryPolicy) -> None:
    assert untaught(policy, windows()) == []


def test_padding_and_invalid_actions_teach_nothing() -> None:
    policy = make_policy("none", "regression", past=2)
    window = make_window(1, first=True)
    losses, _ = policy.loss(window, policy.init_memory(B))
    assert set(losses) == {"action", "outcome"}
    window.actions[~window.action_valid] = 0.9
    window.past_actions[~window.past_valid] = 0.9
    window.outcome[~window.valid] = 7
    changed, _ = policy.loss(window, policy.init_memory(B))
    for name, value in losses.items():
        torch.testing.assert_close(changed[name], value)


def test_plan_is_a_function_of_memory_and_noise(policy: MemoryPolicy, parts: tuple[str, str, str]) -> None:
    with torch.no_grad():
        memory = observed(policy, policy.init_memory(B), make_window(1, first=True))
        noise, other = (torch.randn(B, H, A, generator=torch.Generator().manual_seed(seed)) for seed in (0, 1))
        state = torch.get_rng_state()
        actions = policy.plan(memory, noise).actions
        torch.manual_seed(99)
        assert torch.equal(policy.plan(memory, noise).actions, actions)
        torch.set_rng_state(state)
        different = not torch.equal(policy.plan(memory, other).actions, actions)
        assert torch.equal(torch.get_rng_state(), state)
        alone = policy.plan(memory.map(lambda value: value[1:2]), noise[1:2]).actions
    assert different == (parts[1] != "regression")
    assert actions.shape == (B, H, A)
    low, high = torch.tensor(SPEC.action.low), torch.tensor(SPEC.action.high)
    assert ((actions >= low) & (actions <= high)).all()
    torch.testing.assert_close(alone[0], actions[1], rtol=1e-3, atol=1e-4)


def test_plan_goes_on_from_committed_actions(policy: MemoryPolicy, parts: tuple[str, str, str]) -> None:
    with torch.no_grad():
        memory, noise = observed(policy, policy.init_memory(B), make_window(1, first=True)), torch.randn(B, H, A)
        free = policy.plan(memory, noise).actions
        committed = Prefix(torch.rand(B, H, A) - 0.5, (torch.arange(H) < 2).float().expand(B, H))
        chunk = policy.plan(memory, noise, committed).actions
    assert torch.equal(chunk[:, :2], committed.actions[:, :2])
    assert torch.equal(chunk[:, 2:], free[:, 2:]) == (parts[1] == "regression")


@pytest.mark.parametrize("head", options("head"))
def test_past_actions_are_learned_beside_the_future(head: str) -> None:
    policy = make_policy("gru", head, past=2)
    window, memory, losses = make_window(1, first=True), policy.init_memory(B), []
    for fill in (None, 0.0, 0.0):
        if fill is not None:
            window.past_actions[..., H - 4 + len(losses), :] = fill
        torch.manual_seed(0)
        losses.append(policy.loss(window, memory)[0]["action"])
    assert losses[0] == losses[1]  # the third last is not among the two that are learned
    assert losses[1] != losses[2]
    with torch.no_grad():
        noise, weight = torch.randn(B, H, A), (torch.arange(H) < 1).float().expand(B, H)
        committed = torch.rand(B, H, A) - 0.5
        chunk = policy.plan(memory, noise, Prefix(committed, weight)).actions
    assert chunk.shape == (B, H, A)
    assert torch.equal(chunk[:, 0], committed[:, 0])


def test_head_tells_how_long_it_thought() -> None:
    with torch.no_grad():
        for trunk, most in (("mlp", 1), ("recurrent_depth", 24)):
            policy = make_policy("none", "flow_matching", trunk)
            iterations = policy.diagnostics(policy.init_memory(B))["iterations"]
            assert iterations.shape == (B,)
            assert ((iterations >= 1) & (iterations <= most)).all()


def test_checkpoint_acts_as_what_was_saved(policy: MemoryPolicy, parts: tuple[str, str, str], tmp_path: Path) -> None:
    checkpoint.save(tmp_path / "saved", policy, policy_config(*parts), SPEC, STATISTICS)
    loaded = checkpoint.load(tmp_path / "saved")
    assert loaded.spec == SPEC
    noise = torch.randn(B, H, A)
    window = make_window(1, first=True)
    with torch.no_grad():
        mine, theirs = (observed(p, p.init_memory(B), window) for p in (policy, loaded))
        assert torch.equal(policy.plan(mine, noise).actions, loaded.plan(theirs, noise).actions)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"memry": {}}, "policy has no setting 'memry'; did you mean 'memory'?"),
        ({"past_horizon": 5}, "policy.past_horizon=5 is not from 0 to policy.horizon=4"),
        ({"verify_samples": 0}, "policy.verify_samples=0 must be a whole number"),
        ({"verify_samples": 2}, "policy.verify_samples=2 compares the past of samples, which needs policy.past_"),
        ({"verify_samples": 2, "past_horizon": 2}, "and head=diffusion or head=flow_matching"),
        ({"past_horizon": "two"}, "policy.past_horizon=two is not from 0"),
        ({"outcome_weight": float("nan")}, "policy: outcome_weight=nan must be a number from 0 up"),
        ({"memory": 3}, "3 has no _target_; name a class"),
        ({"memory": {**part("memory", "bank"), "heads": 5}}, "heads=5 cannot share"),
        ({"memory": {**part("memory", "layer"), "heads": 5}}, "heads=5 cannot share"),
        ({"memory": {**part("memory", "layer"), "blend": 2.0}}, "blend=2.0 is a share"),
        ({"encoder": {**part("encoder", "small"), "patch": 12}}, "patch=12 must be a power of two"),
        ({"encoder": {**part("encoder", "small"), "channels": 5}}, "channels=5 must be at least 6"),
        ({"head": head_with("diffusion", context_dropout=1.0)}, "context_dropout=1.0 is a share"),
        ({"memory": None}, "policy.memory is missing; set it, or choose a whole policy, for example policy=robomem"),
        ({"head": head_with("diffusion", draw=3)}, "has no argument 'draw'; did you mean 'draws'?"),
        ({"head": head_with("regression", trunk={**part("trunk", "mlp"), "widht": 3})}, "did you mean 'width'?"),
    ],
)
def test_mistake_in_the_configuration_is_named(change: dict[str, Any], message: str) -> None:
    with pytest.raises(RobomemError) as caught:
        build_policy({**policy_config("none", "regression"), **change}, SPEC, STATISTICS)
    assert message in str(caught.value)


def test_noise_of_the_past_is_normal_and_independent_of_that_of_the_future() -> None:
    noise = torch.randn(1000, 8, 7, generator=torch.Generator().manual_seed(0))
    again = redrawn(noise)
    assert torch.equal(again[3:4], redrawn(noise[3:4]))
    assert abs(again.mean()) < 0.02
    assert abs(again.std() - 1) < 0.02
    assert again.abs().max() < 6
    assert not redrawn(torch.zeros(1, 8, 7)).any()
    for power in (1, 2):
        both = torch.stack([noise.flatten() ** power, again.flatten() ** power])
        assert abs(torch.corrcoef(both)[0, 1]) < 0.02
