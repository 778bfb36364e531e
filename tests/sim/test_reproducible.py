"""The same seed gives the same episode bit for bit, whatever was played before it and in whichever process."""

from collections.abc import Sequence
from contextlib import closing

import numpy as np
import pytest
import torch

from robomem.contract import Observation
from robomem.environment import Environment
from robomem.sim.config import Demonstration, SimConfig
from robomem.sim.demonstrate import Demonstrator, Trace
from robomem.sim.oracles import make_oracle
from robomem.sim.process import prepare
from robomem.sim.simulator import Simulator
from robomem.sim.vector import make_environment

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


def row_of(observation: Observation, row: int) -> list[np.ndarray]:
    return [*(image[row].numpy() for image in observation.images.values()), observation.proprio[row].numpy()]


def play(environment: Environment, seeds: Sequence[int], alone: dict[int, Trace]) -> dict[int, list[np.ndarray]]:
    """All that is observed in the episodes of some seeds, and all rewards, by seed."""
    observation = environment.reset(seeds)
    seen = {seed: row_of(observation, row) for row, seed in enumerate(seeds)}
    for actions in zip(*(alone[seed].executed for seed in seeds), strict=True):
        step = environment.step(np.stack(actions))
        for row, seed in enumerate(seeds):
            seen[seed] += [*row_of(step.observation, row), step.reward[row]]
    return seen


def test_neither_workers_nor_the_order_change_what_is_seen(alone: dict[int, Trace]) -> None:
    first, second = SEEDS
    with closing(make_environment(SimConfig(env_id=ENV_ID, render="lite", workers=2))) as pair:
        expected = play(pair, [first, second], alone)
        swapped = play(pair, [second, first], alone)
    with closing(make_environment(SimConfig(env_id=ENV_ID, render="lite", workers=1))) as single:
        in_turn = {seed: play(single, [seed], alone)[seed] for seed in SEEDS}
    for seed in SEEDS:
        for again in (swapped, in_turn):
            assert all(map(np.array_equal, again[seed], expected[seed]))
