"""The vectorised environment over the real simulator."""

import sys
from collections.abc import Iterator, Sequence
from contextlib import closing

import numpy as np
import pytest
import torch

from robomem.contract import Observation
from robomem.environment import Environment
from robomem.errors import NonFiniteError, RobomemError
from robomem.sim.config import Demonstration, SimConfig
from robomem.sim.demonstrate import Demonstrator
from robomem.sim.embodiment import MIKASA
from robomem.sim.oracles import make_oracle
from robomem.sim.vector import make_environment

SEED = 4242424242


@pytest.fixture(scope="module")
def environment() -> Iterator[Environment]:
    with closing(make_environment(SimConfig(render="lite", workers=2))) as made:
        yield made


def test_it_speaks_the_contract(environment: Environment) -> None:
    observation = environment.reset([SEED, SEED + 1])
    assert environment.embodiment == MIKASA
    assert environment.horizon == 25
    assert {name: tuple(image.shape) for name, image in observation.images.items()} == {
        "top": (2, 128, 128, 3),
        "wrist": (2, 128, 128, 3),
    }
    assert observation.proprio.shape == (2, 7)
    assert observation.instruction[0].startswith("Observe the cube's color")
    step = environment.step(np.zeros((2, 7)))
    assert step.elapsed.tolist() == [0.05, 0.05]
    assert step.choice.tolist() == [0, 0]


def test_seeds_repeat_and_rows_are_reset_alone(environment: Environment) -> None:
    first = environment.reset([SEED, SEED + 1])
    environment.step(np.full((2, 7), 0.5))
    held = environment.step(np.full((2, 7), 0.5)).observation
    again = environment.reset([None, SEED])
    assert torch.equal(again.images["top"][1], first.images["top"][0])
    assert torch.equal(again.proprio[1], first.proprio[0])
    assert torch.equal(again.images["wrist"][0], held.images["wrist"][0])


def test_a_finished_row_holds_still(environment: Environment) -> None:
    environment.reset([SEED, SEED + 1])
    for _ in range(environment.horizon - 1):
        assert not environment.step(np.zeros((2, 7))).done.any()
    last = environment.step(np.zeros((2, 7)))
    assert last.done.all()
    after = environment.step(np.ones((2, 7)))
    assert after.done.all()
    assert torch.equal(after.observation.proprio, last.observation.proprio)


def test_nan_actions_are_refused(environment: Environment) -> None:
    environment.reset([SEED, SEED + 1])
    with pytest.raises(NonFiniteError, match="entry 2 of row 1"):
        environment.step(np.array([[0.0] * 7, [0, 0, np.nan, 0, 0, 0, 0]]))


def test_the_simulator_stays_out_of_this_process(environment: Environment) -> None:
    assert "sapien" not in sys.modules or "robomem.sim.simulator" in sys.modules


def touches(seeds: Sequence[int]) -> dict[int, np.ndarray]:
    """Actions (T, A) by seed in which the arm touches a cube: contacts are what PhysX remembers."""
    config = SimConfig(render="none")
    demonstrator = Demonstrator(config, Demonstration(hold_steps=100))
    return {seed: demonstrator.trace(seed, make_oracle(config.env_id)).executed for seed in seeds}


def row_of(observation: Observation, row: int) -> list[np.ndarray]:
    return [*(image[row].numpy() for image in observation.images.values()), observation.proprio[row].numpy()]


def play(environment: Environment, actions: dict[int, np.ndarray]) -> dict[int, list[np.ndarray]]:
    """All that is observed in the episodes of some seeds, and all rewards, by seed."""
    observation = environment.reset(list(actions))
    seen = {seed: row_of(observation, row) for row, seed in enumerate(actions)}
    for action in zip(*actions.values(), strict=True):
        step = environment.step(np.stack(action))
        for row, seed in enumerate(actions):
            seen[seed] += [*row_of(step.observation, row), step.reward[row]]
    return seen


def test_neither_workers_nor_the_order_of_seeds_change_what_is_seen(environment: Environment) -> None:
    actions = touches([0, 1])
    expected = play(environment, actions)
    swapped = play(environment, dict(reversed(actions.items())))
    with closing(make_environment(SimConfig(render="lite", workers=1))) as single:
        in_turn = {seed: play(single, {seed: actions[seed]})[seed] for seed in actions}
    for seed in actions:
        for again in (swapped, in_turn):
            assert all(map(np.array_equal, again[seed], expected[seed]))


def test_an_unknown_task_suggests_the_nearest() -> None:
    with pytest.raises(RobomemError, match="did you mean RememberColor3-VLA-v0"):
        make_environment(SimConfig(env_id="RememberColour3-VLA-v0", workers=1))


def test_a_plain_maniskill_task_works_too() -> None:
    config = SimConfig(env_id="PickCube-v1", render="lite", workers=1, instruction="pick up the cube")
    with closing(make_environment(config, autoreset=True)) as made:
        observation = made.reset([0])
        assert observation.instruction == ("pick up the cube",)
        assert [camera.name for camera in made.embodiment.cameras] == list(observation.images)
        step = [made.step(np.zeros((1, made.embodiment.action.size))) for _ in range(made.horizon)][-1]
        assert step.done.all()
        assert step.elapsed.tolist() == [0.0]
