"""Closed loop: each episode is as if it were alone."""

from pathlib import Path
from typing import Any

import av
import numpy as np
import pytest
import torch
from torch import Tensor
from toy_env import EMBODIMENT, CueEnvironment, RandomPolicy, SweepPolicy, ToyPolicy, cue_of, policy_spec

from robomem.contract import ActionChunk, Memory, Policy, Prefix
from robomem.errors import NonFiniteError, RobomemError, SpecMismatch
from robomem.rollout import EpisodeResult, rollout
from robomem.rows import PerRow, join, split
from robomem.video import VideoRecorder

SEEDS = [11, 5, 8, 3, 14, 2, 9]


def play(
    policy: Policy, rows: int, seeds: list[int], replan_every: int = 3, **settings: Any
) -> dict[int, EpisodeResult]:
    results = list(rollout(policy, CueEnvironment(rows), seeds, replan_every=replan_every, **settings))
    assert sorted(result.seed for result in results) == sorted(seeds)
    return {result.seed: result for result in results}


@pytest.mark.parametrize("policy", [ToyPolicy(), RandomPolicy(policy_spec())], ids=["toy", "random"])
def test_results_depend_on_the_seed_alone(policy: Policy) -> None:
    alone = {seed: play(policy, 1, [seed])[seed].outcome() for seed in SEEDS}
    for rows, seeds in [(1, SEEDS), (2, SEEDS), (4, SEEDS[::-1]), (9, SEEDS)]:
        assert {seed: result.outcome() for seed, result in play(policy, rows, seeds).items()} == alone


def test_a_new_episode_in_a_row_starts_with_new_memory_and_new_plan() -> None:
    seeds = sorted(SEEDS, key=cue_of)
    assert {cue_of(seed) for seed in seeds} == {0, 1}
    for result in play(ToyPolicy(), 2, [seeds[0], seeds[-1], *seeds[1:-1]]).values():
        assert result.success_once
        assert result.success_at_end
        assert result.first_choice == 1
        assert len(result.observe_ms) == result.steps
        assert len(result.plan_ms) == -(-result.steps // 3)


def test_memory_receives_measured_time_and_starts_anew_with_an_episode() -> None:
    clocks: dict[tuple[int, int], float] = {}

    def watch(memory: Memory, seed: int, tick: int) -> Memory:
        clocks[seed, tick] = float(memory.state["clock"])
        return memory

    play(ToyPolicy(), 2, SEEDS, intervene=watch)
    for seed in SEEDS:
        expected = np.cumsum([0, 0, *(0.05 + 0.01 * (tick % 2) for tick in range(1, 12))])
        found = [clocks[seed, tick] for tick in range(13)]
        np.testing.assert_allclose(found, expected, atol=1e-6)


def test_success_is_latched_and_the_first_choice_counts() -> None:
    results = play(SweepPolicy(), 3, SEEDS)
    for seed, result in results.items():
        assert result.success_once
        assert result.success_at_end == (cue_of(seed) == 0)
        assert result.first_choice == (1 if cue_of(seed) else -1)


def test_noise_is_drawn_per_plan_and_seeded() -> None:
    once, again = (play(ToyPolicy(), 2, SEEDS, noise_seed=1) for _ in range(2))
    other = play(ToyPolicy(), 2, SEEDS, noise_seed=2)
    assert [r.outcome() for r in once.values()] == [r.outcome() for r in again.values()]
    assert all(once[seed].total_reward != other[seed].total_reward for seed in SEEDS)


def test_not_a_number_names_seed_and_tick() -> None:
    class Broken(ToyPolicy):
        def plan(self, memory: Memory, noise: Tensor, prefix: Prefix | None = None) -> ActionChunk:
            late = memory.state["ticks"][:, None] > 5
            return ActionChunk(noise.masked_fill(late, torch.nan))

    with pytest.raises(NonFiniteError, match="tick 6 of the episode with seed 4"):
        play(Broken(), 1, [4])


def test_what_does_not_fit_is_refused_before_anything_runs() -> None:
    with pytest.raises(RobomemError, match="replan_every=5 is not within the policy's chunk of 1 to 4"):
        play(ToyPolicy(), 1, [1], replan_every=5)
    policy = ToyPolicy()
    policy.spec = policy_spec(EMBODIMENT.from_dict(EMBODIMENT.to_dict() | {"action_dt": 0.1}))
    with pytest.raises(SpecMismatch, match=r"0\.1.*0\.05"):
        play(policy, 1, [1])


def test_rows_are_split_and_joined_and_run_one_by_one() -> None:
    policy = RandomPolicy(policy_spec())
    observation = CueEnvironment(3).reset([0, 1, 2])
    dt = torch.tensor([0.0, 0.1, 0.2])
    with torch.inference_mode():
        memory = PerRow(policy).observe(policy.init_memory(3), observation, dt)
        for row, one in enumerate(split(memory)):
            alone = CueEnvironment(1).reset([row])
            expected = policy.observe(policy.init_memory(1), alone, dt[row : row + 1])
            assert torch.equal(one.state["hidden"], expected.state["hidden"])
    assert torch.equal(join(split(memory)).state["hidden"], memory.state["hidden"])


def test_videos_show_every_observation(tmp_path: Path) -> None:
    results = play(ToyPolicy(), 2, SEEDS, recorder=VideoRecorder(tmp_path, {5, 2}, fps=20))
    assert sorted(path.name for path in tmp_path.iterdir()) == ["2.mp4", "5.mp4"]
    video = av.open(tmp_path / "5.mp4")
    frames = [frame.to_ndarray(format="rgb24") for frame in video.decode(video=0)]
    video.close()
    assert len(frames) == results[5].steps + 1
    assert frames[0].shape == (416, 768, 3)
    colour = frames[0][100, 100].astype(int)
    assert (colour[1] > colour[0]) == (cue_of(5) == 1)
    assert np.abs(frames[-1][100, 100].astype(int) - 128).max() < 20
