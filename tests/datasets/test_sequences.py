"""The windows of a lane are its episodes, one after another, whatever the sizes."""

import threading
from collections.abc import Callable, Sequence
from dataclasses import fields
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
import torch
from dataset_samples import EMBODIMENT, make_episode
from hypothesis import given, settings
from hypothesis import strategies as st

from robomem.contract import Window
from robomem.datasets import lerobot_reader
from robomem.datasets.augment import EpisodeAugmentation, find_keyframes
from robomem.datasets.lerobot_reader import EpisodeReader
from robomem.datasets.lerobot_writer import EpisodeWriter
from robomem.datasets.sequences import SequenceBatches
from robomem.episode import Episode
from robomem.errors import RobomemError

LENGTHS = (1, 7, 2, 5, 1, 3, 9, 4, 6, 2, 8, 3)


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Twelve episodes of 1 to 9 ticks, the seed being the index."""
    root = tmp_path_factory.mktemp("dataset")
    with EpisodeWriter(root, EMBODIMENT) as writer:
        for seed, ticks in enumerate(LENGTHS):
            writer.save(make_episode(seed, ticks))
    return root


@pytest.fixture(scope="module")
def reader(root: Path) -> EpisodeReader:
    """A reader that keeps every episode."""
    return EpisodeReader(root, cache_bytes=10**8)


def assert_equal_windows(found: Sequence[Window], expected: Sequence[Window]) -> None:
    """Both sequences of windows are the same, bit for bit."""
    assert len(found) == len(expected)
    for a, b in zip(found, expected, strict=True):
        assert a.observation.instruction == b.observation.instruction
        for name in [field.name for field in fields(Window) if field.name != "observation"]:
            assert torch.equal(getattr(a, name), getattr(b, name))
        assert torch.equal(a.observation.proprio, b.observation.proprio)
        for name, image in a.observation.images.items():
            assert torch.equal(image, b.observation.images[name])


def lane(windows: Sequence[Window], row: int) -> dict[str, np.ndarray]:
    """The ticks of one row of consecutive windows."""
    fields: dict[str, Callable[[Window], torch.Tensor]] = {
        "base": lambda w: w.observation.images["base"],
        "hand": lambda w: w.observation.images["hand"],
        "proprio": lambda w: w.observation.proprio,
        "dt": lambda w: w.dt,
        "is_first": lambda w: w.is_first,
        "valid": lambda w: w.valid,
        "actions": lambda w: w.actions,
        "previous_action": lambda w: w.previous_action,
        "past_actions": lambda w: w.past_actions,
        "past_valid": lambda w: w.past_valid,
        "action_valid": lambda w: w.action_valid,
        "outcome": lambda w: w.outcome,
    }
    ticks = {name: np.concatenate([take(w)[row].numpy() for w in windows]) for name, take in fields.items()}
    texts = [np.array(w.observation.instruction).reshape(w.dt.shape)[row] for w in windows]
    return ticks | {"instruction": np.concatenate(texts)}


def assert_is_episode(
    ticks: dict[str, np.ndarray], episode: Episode, horizon: int, kept: np.ndarray | None = None
) -> None:
    """These ticks are those of an episode that were kept: all of them by default."""
    kept = np.arange(len(episode)) if kept is None else kept
    length = len(kept)
    assert ticks["is_first"].tolist() == [True] + [False] * (length - 1)
    assert ticks["valid"].all()
    for name, frames in episode.images.items():
        np.testing.assert_array_equal(ticks[name], frames[kept], strict=True)
    np.testing.assert_array_equal(ticks["proprio"], episode.proprio[kept], strict=True)
    np.testing.assert_array_equal(ticks["outcome"], np.tile(episode.proprio[-1], (length, 1)), strict=True)
    np.testing.assert_array_equal(ticks["dt"][1:], np.diff(episode.timestamps[kept]).astype(np.float32), strict=True)
    assert ticks["dt"][0] == 0
    assert set(ticks["instruction"]) == {episode.instruction}
    assert not ticks["previous_action"][0].any()
    np.testing.assert_array_equal(ticks["previous_action"][1:], episode.actions[kept[:-1]], strict=True)
    for tick, original in enumerate(kept):
        chunk = episode.actions[original : original + horizon]
        np.testing.assert_array_equal(ticks["actions"][tick][: len(chunk)], chunk, strict=True)
        assert ticks["action_valid"][tick].tolist() == [h < len(chunk) for h in range(horizon)]
        past = episode.actions[max(original - horizon, 0) : original]
        np.testing.assert_array_equal(ticks["past_actions"][tick][horizon - len(past) :], past, strict=True)
        assert ticks["past_valid"][tick].tolist() == [horizon - h <= len(past) for h in range(horizon)]


@settings(max_examples=40, deadline=None)
@given(
    episodes=st.permutations(range(12)).flatmap(lambda order: st.integers(4, 12).map(lambda n: order[:n])),
    batch_size=st.integers(1, 4),
    window=st.integers(1, 11),
    horizon=st.integers(1, 4),
    seed=st.integers(0, 2**32),
    epoch=st.integers(0, 3),
    data=st.data(),
)
def test_windows_put_together_are_the_episodes(
    root: Path,
    episodes: list[int],
    batch_size: int,
    window: int,
    horizon: int,
    seed: int,
    epoch: int,
    data: st.DataObject,
) -> None:
    reader = EpisodeReader(root, episodes, cache_bytes=10**8)
    batches = SequenceBatches(reader, batch_size, window, horizon, seed)
    windows = list(batches.epoch(epoch))
    assert len(windows) == batches.num_steps(epoch)
    for value in windows:
        assert value.observation.images["base"].shape == (batch_size, window, 8, 12, 3)
        assert value.actions.shape == (batch_size, window, horizon, 3)
        assert len(value.observation.instruction) == batch_size * window
    by_proprio = {reader[i].proprio[0].tobytes(): reader[i] for i in range(len(reader))}
    seen = []
    for row in range(batch_size):
        ticks = lane(windows, row)
        used = int(ticks["valid"].sum())
        assert not ticks["valid"][used:].any()
        assert not ticks["is_first"][used:].any()
        assert not ticks["action_valid"][used:].any()
        assert not ticks["past_valid"][used:].any()
        starts = [*np.flatnonzero(ticks["is_first"]), used]
        assert starts[0] == 0
        for start, stop in pairwise(starts):
            episode = by_proprio[ticks["proprio"][start].tobytes()]
            assert_is_episode({name: values[start:stop] for name, values in ticks.items()}, episode, horizon)
            seen.append(episode.seed)
    assert sorted(seen) == sorted(episodes)

    start_step = data.draw(st.integers(0, len(windows)))
    assert_equal_windows(list(batches.epoch(epoch, start_step)), windows[start_step:])


@pytest.mark.parametrize("augment", [None, EpisodeAugmentation(channel_permutation=0.5, shift=2)])
def test_the_same_seed_gives_the_same_windows(reader: EpisodeReader, augment: EpisodeAugmentation | None) -> None:
    windows = list(SequenceBatches(reader, 3, 4, 2, seed=5, augment=augment).epoch(1))
    assert_equal_windows(list(SequenceBatches(reader, 3, 4, 2, seed=5, augment=augment).epoch(1)), windows)
    for seed, epoch in ((6, 1), (5, 2)):
        other = list(SequenceBatches(reader, 3, 4, 2, seed=seed, augment=augment).epoch(epoch))
        assert not torch.equal(other[0].observation.proprio, windows[0].observation.proprio)


def test_processes_share_the_episodes(reader: EpisodeReader) -> None:
    ranks = [SequenceBatches(reader, 2, 3, 1, seed=0, shard=(rank, 3)) for rank in range(3)]
    assert len({batches.num_steps(0) for batches in ranks}) == 1
    firsts = [
        tuple(value.observation.proprio[value.is_first][:, 0].tolist())
        for batches in ranks
        for value in batches.epoch(0)
    ]
    found = sorted(number for numbers in firsts for number in numbers)
    assert found == sorted(float(episode.proprio[0, 0]) for episode in reader)


def test_lanes_end_close_together(reader: EpisodeReader) -> None:
    for epoch in range(20):
        valid = torch.cat([value.valid for value in SequenceBatches(reader, 4, 1, 1, seed=0).epoch(epoch)], dim=1)
        assert valid.sum() == sum(LENGTHS)
        assert valid.sum(dim=1).max() - valid.sum(dim=1).min() <= max(LENGTHS)


def test_a_change_is_the_same_through_an_episode(reader: EpisodeReader) -> None:
    augment = EpisodeAugmentation(channel_permutation=1.0, shift=2)
    windows = list(SequenceBatches(reader, 2, 4, 1, seed=3, augment=augment).epoch(7))
    by_proprio = {reader[i].proprio[0].tobytes(): i for i in range(len(reader))}
    for row in range(2):
        ticks = lane(windows, row)
        starts = [*np.flatnonzero(ticks["is_first"]), int(ticks["valid"].sum())]
        for start, stop in pairwise(starts):
            index = by_proprio[ticks["proprio"][start].tobytes()]
            change = augment.draw(3, 7, index, ["base", "hand"])
            for name, frames in reader[index].images.items():
                np.testing.assert_array_equal(ticks[name][start:stop], change.apply(name, frames))


@pytest.mark.parametrize("keep", [0.3, 0.7])
def test_dropped_ticks_only_lengthen_the_time_to_the_next(reader: EpisodeReader, keep: float) -> None:
    augment, horizon = EpisodeAugmentation(keep=keep), 3
    batches = SequenceBatches(reader, 2, 4, horizon, seed=3, augment=augment)
    windows = list(batches.epoch(7))
    assert len(windows) == batches.num_steps(7)
    by_proprio = {episode.proprio[0].tobytes(): episode for episode in reader}
    seen, total = [], 0
    for row in range(2):
        ticks = lane(windows, row)
        used = int(ticks["valid"].sum())
        for start, stop in pairwise([*np.flatnonzero(ticks["is_first"]), used]):
            episode = by_proprio[ticks["proprio"][start].tobytes()]
            kept = augment.ticks(3, 7, episode.seed, find_keyframes(episode.actions))  # the seed is the index, too
            assert_is_episode({name: values[start:stop] for name, values in ticks.items()}, episode, horizon, kept)
            assert ticks["dt"][start:stop].sum() == pytest.approx(episode.timestamps[kept[-1]] - episode.timestamps[0])
            seen.append(episode.seed)
            total += len(kept)
    assert sorted(seen) == list(range(len(LENGTHS)))
    assert total < sum(LENGTHS)
    assert_equal_windows(list(batches.epoch(7, 1)), windows[1:])


def test_frames_are_decoded_once_and_skipped_ones_never(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    decoded: list[int] = []
    decode = lerobot_reader.decode_png
    monkeypatch.setattr(lerobot_reader, "decode_png", lambda png: decoded.append(1) or decode(png))
    batches = SequenceBatches(EpisodeReader(root), 2, 3, 1, seed=0)
    steps = len(list(batches.epoch(0)))
    assert len(decoded) == 2 * sum(LENGTHS)
    decoded.clear()
    assert len(list(batches.epoch(0, steps - 1))) == 1
    assert 0 < len(decoded) <= 2 * 2 * max(LENGTHS)


def test_errors_reach_the_consumer_and_threads_end(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    batches = SequenceBatches(EpisodeReader(root), 2, 3, 1, seed=0)
    iterator = batches.epoch(0)
    next(iterator)
    iterator.close()  # pyright: ignore[reportAttributeAccessIssue]
    monkeypatch.setattr(lerobot_reader, "decode_png", lambda png: None)
    with pytest.raises(RobomemError, match="is no PNG of 12 x 8"):
        list(batches.epoch(0))
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("windows")]


def test_too_few_episodes_are_refused(reader: EpisodeReader) -> None:
    with pytest.raises(RobomemError, match=r"12 episodes cannot fill 7 lanes in each of 2 processes; lower .* to 6"):
        SequenceBatches(reader, 7, 3, 1, seed=0, shard=(0, 2))


def test_a_shift_out_of_the_image_is_refused(reader: EpisodeReader) -> None:
    side = min(reader.embodiment.cameras[0].height, reader.embodiment.cameras[0].width)
    with pytest.raises(RobomemError, match=rf"data.augmentation.shift={side} moves the image of base .* out of sight"):
        SequenceBatches(reader, 2, 3, 1, seed=0, augment=EpisodeAugmentation(shift=side))
