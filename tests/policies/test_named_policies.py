"""The named policies of `configs/policy`: each trains on `experiment=remember_color policy=NAME` alone."""

from pathlib import Path
from typing import Any

import pytest
import torch
from memories import awake
from untrained import Untrained, untrained
from windows import EMBODIMENT, A, B, assert_trained_as_acted, make_window, observed, untaught, windows

NAMES = sorted(path.stem for path in (Path(__file__).parents[2] / "configs" / "policy").glob("*.yaml"))


@pytest.fixture(scope="module", params=NAMES)
def named(request: pytest.FixtureRequest) -> Untrained:
    """A policy as its file says, moved from its zero-initialised projections, so that everything matters."""
    found = untrained(EMBODIMENT, "experiment=remember_color", f"policy={request.param}")
    assert found.config["name"] == request.param
    awake(found.policy)
    return found


def test_it_learns_and_acts_on_what_it_learned_from(named: Untrained) -> None:
    horizon = named.spec.horizon
    policy: Any = named.policy
    assert_trained_as_acted(policy, windows(horizon))
    assert untaught(policy, windows(horizon)) == []
    with torch.no_grad():
        memory = observed(policy, policy.init_memory(B), make_window(1, first=True, horizon=horizon))
        noise = torch.randn(B, horizon, A)
        actions = policy.plan(memory, noise).actions
        assert torch.equal(policy.plan(memory, noise).actions, actions)
    assert actions.shape == (B, horizon, A)


def test_another_memory_is_one_word(named: Untrained) -> None:
    """A file sets nothing inside a part that an override of the part would trip over."""
    found = untrained(EMBODIMENT, f"policy={named.config['name']}", "memory=gru")
    assert found.config["memory"]["cell"]["_target_"].endswith(".GRU")
    assert found.config == named.config | {"memory": found.config["memory"]}
