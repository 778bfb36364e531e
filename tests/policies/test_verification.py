"""Self-verification: the plan whose past fits what was executed, and how that is known."""

from typing import Any

import pytest
import torch
from torch import Tensor
from untrained import untrained
from windows import EMBODIMENT, A, B, make_window, observed

from robomem.contract import Memory, Prefix
from robomem.policies.policy import MemoryPolicy
from robomem.policies.verification import ExecutedPast, SelfVerifyingPolicy, known, misfit

DT, K, N, H = 0.05, 3, 4, 4


def make_policy(head: str, samples: int = N) -> MemoryPolicy:
    settings = [f"head={head}", f"policy.horizon={H}", f"policy.past_horizon={K}", f"policy.verify_samples={samples}"]
    policy: Any = untrained(EMBODIMENT, "policy=past_token", *settings).policy
    return policy


def seen(policy: MemoryPolicy) -> Memory:
    return observed(policy, policy.init_memory(B), make_window(1, first=True, horizon=H))


def with_executed(memory: Memory, past: Tensor, valid: Tensor) -> Memory:
    executed = torch.cat([past, valid[..., None]], dim=-1)
    return Memory({**memory.working, "executed": executed}, memory.state)


def exact_robot() -> ExecutedPast:
    """Knows that an action of 1 moves each of two joints by 0.1 in a control step."""
    past = ExecutedPast(proprio=2, steps=K, action=2, action_dt=DT)
    torch.nn.init.zeros_(past.inverse.bias)
    with torch.no_grad():
        past.inverse.weight.copy_(torch.cat([torch.eye(2) * DT / 0.1, torch.zeros(2, 2)], dim=1))
    return past


@torch.no_grad()
def test_executed_actions_are_told_from_movement_and_measured_time() -> None:
    robot, actions = exact_robot(), torch.tensor([[1.0, 0.0], [0.5, 0.5], [0.0, -1.0], [0.0, -1.0], [1.0, 1.0]])
    places = torch.cat([torch.ones(1, 2), 1 + 0.1 * actions.cumsum(0)])
    state = robot.init(1)
    for tick, (elapsed, done) in {0: (0.0, []), 1: (0.052, [0]), 2: (0.047, [0, 1]), 4: (0.1, [1, 2, 3])}.items():
        executed, state = robot.step(state, places[None, tick], torch.tensor([elapsed]))
        assert known(executed)[0].tolist() == [0] * (K - len(done)) + [1] * len(done)
        torch.testing.assert_close(executed[0, K - len(done) :, :2], actions[done], rtol=0.1, atol=1e-5)


def test_what_seems_to_have_been_done_is_compared_with_what_was() -> None:
    """Windows of a robot that goes where it is told, and an inverse model that knows it."""
    policy = make_policy("diffusion")
    assert isinstance(policy, SelfVerifyingPolicy)
    straight = torch.tensor([0, 1, 2, 6])  # entries that are no angles
    with torch.no_grad():
        for parameter in policy.executed.inverse.parameters():
            parameter.zero_()
        policy.executed.inverse.weight[straight, torch.arange(4)] = DT / 0.1
    window, actions = make_window(1, first=True, horizon=H), torch.zeros(B, H, A)
    actions[..., straight] = 2 * torch.rand(B, H, 4) - 1
    window.dt.fill_(DT)[window.is_first] = 0
    window.observation.proprio[:, : H + 1] = torch.cat([torch.zeros(B, 1, A), 0.1 * actions.cumsum(1)], dim=1)
    window.valid[:, H + 1 :] = False
    for tick in range(H + 1):
        window.past_valid[:, tick] = torch.arange(H) >= H - tick
        window.past_actions[:, tick, H - tick :] = actions[:, :tick]
    losses, _ = policy.loss(window, policy.init_memory(B))
    torch.testing.assert_close(losses["executed"], torch.zeros(()))
    window.past_actions[:, :, -2] += 1
    losses, _ = policy.loss(window, policy.init_memory(B))
    assert losses["executed"] > 0.1


@pytest.mark.parametrize("head", ["diffusion", "flow_matching"])
@torch.no_grad()
def test_plan_is_the_sample_whose_past_was_executed(head: str) -> None:
    policy = make_policy(head)
    assert isinstance(policy, SelfVerifyingPolicy)
    memory, noise = seen(policy), torch.randn(B, H, A)
    candidates = [MemoryPolicy._sample(policy, memory, noise * sign).actions for sign in policy.signs]
    assert len(candidates) == N
    for candidate in candidates:
        past = candidate[:, :K] + 0.01 * torch.randn(B, K, A)
        chosen = policy._sample(with_executed(memory, past, torch.ones(B, K)), noise).actions
        torch.testing.assert_close(chosen, candidate, rtol=1e-4, atol=1e-5)
    rows = torch.arange(B) % N  # each row chooses for itself
    mixed = torch.stack([candidates[index][row] for row, index in enumerate(rows)])
    chosen = policy._sample(with_executed(memory, mixed[:, :K], torch.ones(B, K)), noise).actions
    torch.testing.assert_close(chosen, mixed, rtol=1e-4, atol=1e-5)


@torch.no_grad()
def test_nothing_known_takes_the_given_noise() -> None:
    policy = make_policy("diffusion")
    memory, noise = seen(policy), torch.randn(B, H, A)
    blind = with_executed(memory, 9 * torch.randn(B, K, A), torch.zeros(B, K))
    plain = MemoryPolicy._sample(policy, memory, noise).actions
    torch.testing.assert_close(policy._sample(blind, noise).actions, plain, rtol=1e-4, atol=1e-5)


@torch.no_grad()
def test_unknown_steps_do_not_count_and_a_prefix_is_kept() -> None:
    policy = make_policy("diffusion")
    memory, noise = seen(policy), torch.randn(B, H, A)
    past, valid = torch.randn(B, K, A), torch.tensor([0.0, 1.0, 1.0]).expand(B, K)
    other = torch.cat([past[:, :1] + 5, past[:, 1:]], dim=1)
    committed = Prefix(torch.rand(B, H, A) - 0.5, (torch.arange(H) < 2).float().expand(B, H))
    chunk, same = (policy.plan(with_executed(memory, p, valid), noise, committed).actions for p in (past, other))
    assert torch.equal(chunk, same)
    assert torch.equal(chunk[:, :2], committed.actions[:, :2])


@torch.no_grad()
def test_noises_made_of_one_are_standard_normal_and_differ() -> None:
    policy = make_policy("diffusion")
    assert isinstance(policy, SelfVerifyingPolicy)
    assert torch.equal(policy.signs, make_policy("flow_matching").get_buffer("signs"))
    assert (policy.signs[0] == 1).all()
    assert policy.signs.abs().eq(1).all()
    assert len(policy.signs.flatten(1).unique(dim=0)) == N


def test_misfit_is_zero_for_what_was_done() -> None:
    done = torch.randn(B, K, A)
    executed = torch.cat([done, torch.ones(B, K, 1)], dim=-1)
    assert not misfit(done, executed).any()
    torch.testing.assert_close(misfit(done + 2, executed), torch.full((B, K), 4.0))
