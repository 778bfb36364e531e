"""The same seed gives the same episode bit for bit, whatever was played before it: that of a fresh environment."""

import numpy as np
import pytest
import torch

from robomem.sim.config import Demonstration, SimConfig
from robomem.sim.demonstrate import Demonstrator, Trace
from robomem.sim.oracles import make_oracle
from robomem.sim.process import prepare
from robomem.sim.simulator import Simulator

ENV_ID = "RememberColor3-VLA-v0"
STATE = SimConfig(env_id=ENV_ID, render="none")
SEEDS = (0, 1)
"""The arm touches a cube in both: contacts are what PhysX remembers."""


def demonstrator() -> Demonstrator:
    return Demonstrator(STATE, Demonstration(hold_steps=100))


@pytest.fixture(scope="module")
def alone() -> dict[int, Trace]:
    """Each seed in a simulation of its own."""
    return {seed: demonstrator().trace(seed, make_oracle(ENV_ID)) for seed in SEEDS}


def test_a_demonstration_depends_on_its_seed_alone(alone: dict[int, Trace]) -> None:
    run = demonstrator()
    for seed in (*SEEDS, *SEEDS[::-1]):
        trace = run.trace(seed, make_oracle(ENV_ID))
        assert np.array_equal(trace.labels, alone[seed].labels)
        assert [o.reward for o in trace.outcomes] == [o.reward for o in alone[seed].outcomes]


def test_an_episode_is_that_of_a_fresh_published_environment(alone: dict[int, Trace]) -> None:
    simulator = Simulator(STATE)
    for seed in SEEDS:
        published = prepare(STATE).make(
            ENV_ID,
            obs_mode="state",
            control_mode="pd_ee_delta_pose",
            reward_mode="normalized_dense",
            render_backend="none",
        )
        published.reset(seed=seed)
        simulator.reset([seed])
        for action in alone[seed].executed:
            reward = published.step(torch.from_numpy(action[None]))[1]
            assert simulator.step(action[None]).reward == reward.numpy()
            assert torch.equal(simulator.unwrapped.get_state(), published.unwrapped.get_state())
        published.close()
