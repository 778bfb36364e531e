"""Augmentation is a pure function, the same through an episode."""

import subprocess
import sys
from itertools import permutations
from typing import Any

import numpy as np
import pytest
from omegaconf import OmegaConf

from robomem.datasets.augment import EpisodeAugmentation, find_keyframes, permute_channels, shift_frames
from robomem.datasets.config import DataConfig
from robomem.errors import RobomemError

CAMERAS = ("base", "hand")
FRAMES = np.random.default_rng(0).integers(0, 256, (4, 6, 5, 3), dtype=np.uint8)


def test_channels_are_permuted() -> None:
    np.testing.assert_array_equal(permute_channels(FRAMES, (2, 0, 1)), FRAMES[..., [2, 0, 1]])
    assert permute_channels(FRAMES, (0, 1, 2)) is FRAMES


def test_frames_are_shifted_and_the_border_is_repeated() -> None:
    down = shift_frames(FRAMES, 2, 0)
    np.testing.assert_array_equal(down[:, 2:], FRAMES[:, :-2])
    np.testing.assert_array_equal(down[:, :2], FRAMES[:, [0, 0]])
    left = shift_frames(FRAMES, 0, -1)
    np.testing.assert_array_equal(left[:, :, :-1], FRAMES[:, :, 1:])
    np.testing.assert_array_equal(left[:, :, -1], FRAMES[:, :, -1])
    both = shift_frames(FRAMES, -1, 3)
    np.testing.assert_array_equal(both[:, :-1, 3:], FRAMES[:, 1:, :-3])
    assert both.shape == FRAMES.shape


def test_a_change_is_a_function_of_seed_epoch_and_episode() -> None:
    augment = EpisodeAugmentation(channel_permutation=1.0, shift=20)
    drawn = {
        (seed, epoch, episode): augment.draw(seed, epoch, episode, CAMERAS)
        for seed in range(2)
        for epoch in range(2)
        for episode in range(3)
    }
    assert len({tuple(change.shifts.items()) for change in drawn.values()}) == len(drawn)
    for key, change in drawn.items():
        assert augment.draw(*key, CAMERAS) == change


def test_every_order_and_shift_occurs() -> None:
    augment = EpisodeAugmentation(channel_permutation=0.5, shift=1)
    drawn = [augment.draw(0, 0, episode, CAMERAS) for episode in range(600)]
    assert {change.channels for change in drawn} == set(permutations(range(3)))
    kept = np.mean([change.channels == (0, 1, 2) for change in drawn])
    assert abs(kept - (0.5 + 0.5 / 6)) < 0.07
    shifts = {change.shifts["hand"] for change in drawn}
    assert shifts == {(down, right) for down in (-1, 0, 1) for right in (-1, 0, 1)}


def test_all_ticks_and_all_cameras_change_alike() -> None:
    change = EpisodeAugmentation(channel_permutation=1.0, shift=2).draw(0, 0, 1, CAMERAS)
    assert change.channels != (0, 1, 2)
    for camera in CAMERAS:
        whole = change.apply(camera, FRAMES)
        np.testing.assert_array_equal(
            np.concatenate([change.apply(camera, FRAMES[t : t + 1]) for t in range(4)]), whole
        )
        np.testing.assert_array_equal(
            whole, permute_channels(shift_frames(FRAMES, *change.shifts[camera]), change.channels)
        )


def test_no_augmentation_changes_nothing() -> None:
    change = EpisodeAugmentation().draw(0, 0, 0, CAMERAS)
    assert change.apply("base", FRAMES) is FRAMES


def test_keyframes_are_the_first_tick_and_the_jumps() -> None:
    actions = np.zeros((7, 2), np.float32)
    actions[3:, 0] = 1
    actions[5:, 1] = -0.1
    assert np.flatnonzero(find_keyframes(actions)).tolist() == [0, 3, 5]
    assert np.flatnonzero(find_keyframes(actions[:1])).tolist() == [0]
    assert np.flatnonzero(find_keyframes(np.linspace(0, 1, 9, dtype=np.float32)[:, None])).tolist() == [0]


def test_keyframes_are_kept_and_the_others_change_with_the_epoch() -> None:
    augment, keyframes = EpisodeAugmentation(keep=0.5), np.isin(np.arange(200), [0, 60, 61])
    kept = [augment.ticks(0, epoch, 0, keyframes) for epoch in range(20)]
    assert all({0, 60, 61} <= set(ticks) and (np.diff(ticks) > 0).all() and ticks[-1] < 200 for ticks in kept)
    assert abs(np.mean([len(ticks) for ticks in kept]) - 101.5) < 10
    assert len({tuple(ticks) for ticks in kept}) == len(kept)
    np.testing.assert_array_equal(augment.ticks(0, 3, 0, keyframes), kept[3])
    np.testing.assert_array_equal(EpisodeAugmentation().ticks(0, 0, 0, keyframes), np.arange(200))


@pytest.mark.parametrize(
    "wrong", [{"keep": 0.0}, {"keep": 1.5}, {"channel_permutation": 1.5}, {"channel_permutation": -0.1}, {"shift": -1}]
)
def test_wrong_augmentation_is_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(RobomemError, match=r"^data.augmentation.\w+=[-.\d]+ is a .* 0"):
        EpisodeAugmentation(**wrong)


@pytest.mark.parametrize("wrong", [{"batch_size": 0}, {"window": -1}, {"cache_gib": -1.0}])
def test_wrong_settings_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(RobomemError, match=r"^data.\w+=[-.\d]+ must"):
        DataConfig(**wrong)


def test_the_settings_are_a_structured_configuration() -> None:
    config = DataConfig(root="data/cubes", cache_gib=0.5, augmentation=EpisodeAugmentation(shift=3))
    assert config.cache_bytes == 2**29
    assert OmegaConf.to_object(OmegaConf.structured(config)) == config
    assert OmegaConf.missing_keys(OmegaConf.structured(DataConfig)) == {"root"}


def test_importing_the_settings_loads_nothing_heavy() -> None:
    code = "import sys, robomem.datasets.config; sys.exit(bool({'torch', 'cv2', 'pyarrow'} & set(sys.modules)))"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_measured_times_are_off_a_little_and_stay_in_order() -> None:
    timestamps = np.cumsum([0.0, 0.05, 0.05, 0.5, 0.05, 0.01, 0.05])
    assert EpisodeAugmentation().times(0, 0, 0, timestamps) is timestamps
    augment = EpisodeAugmentation(jitter=0.4)
    drawn = np.array([augment.times(0, 0, episode, timestamps) for episode in range(500)])
    assert (np.diff(drawn, axis=1) > 0).all()
    assert (drawn[:, 0] == 0).all()
    gaps = np.diff(timestamps)
    room = np.minimum(gaps, np.append(gaps[1:], np.inf))
    off = np.abs(drawn - timestamps)[:, 1:].max(axis=0)
    assert (off <= 0.4 * room + 1e-12).all()
    assert (off > 0.3 * room).all()
    np.testing.assert_array_equal(augment.times(1, 2, 3, timestamps), augment.times(1, 2, 3, timestamps))
    with pytest.raises(RobomemError, match=r"jitter=0\.5 is a share"):
        EpisodeAugmentation(jitter=0.5)
