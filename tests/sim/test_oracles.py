"""Oracles and the sweep on the benchmark's own seeds, in state mode."""

from typing import Any

import pytest

from robomem.errors import RobomemError
from robomem.sim.config import Demonstration, SimConfig
from robomem.sim.demonstrate import Demonstrator
from robomem.sim.oracles import make_oracle, make_sweep

SEED = 4242424242


def demonstrator(env_id: str, **settings: Any) -> Demonstrator:
    return Demonstrator(SimConfig(env_id=env_id, render="none"), Demonstration(**settings))


@pytest.mark.parametrize("env_id", [f"RememberColor{n}-VLA-v0" for n in (3, 5, 9)] + ["ShellGameTouch-VLA-v0"])
def test_the_oracle_succeeds_and_chooses_right(env_id: str) -> None:
    run = demonstrator(env_id)
    traces = [run.trace(SEED + i, make_oracle(env_id)) for i in range(10)]
    assert all(trace.success.any() for trace in traces)
    assert all(trace.first_choice == 1 for trace in traces)


def test_the_sweep_succeeds_without_knowing_but_its_first_choice_is_chance() -> None:
    run = demonstrator("RememberColor3-VLA-v0", hold_steps=100)
    traces = [run.trace(SEED + i, make_sweep("RememberColor3-VLA-v0")) for i in range(20)]
    assert sum(trace.success.any() for trace in traces) >= 7
    assert sum(trace.first_choice == 1 for trace in traces) <= 12


def test_a_disturbed_demonstration_has_clean_labels_and_recovers() -> None:
    env_id = "RememberColor3-VLA-v0"
    clean, noisy = (
        demonstrator(env_id).trace(0, make_oracle(env_id)),
        demonstrator(env_id, noise=0.6).trace(0, make_oracle(env_id)),
    )
    assert (clean.labels == clean.executed).all()
    assert (noisy.labels != noisy.executed).any()
    assert noisy.success.any()
    again = demonstrator(env_id, noise=0.6).trace(0, make_oracle(env_id))
    assert (again.executed == noisy.executed).all()


def test_a_task_without_an_oracle_is_named() -> None:
    with pytest.raises(RobomemError, match="oracle for 'RememberColor4-VLA-v0'"):
        make_oracle("RememberColor4-VLA-v0")
