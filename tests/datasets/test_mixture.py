"""Several datasets as one, and how often each of their episodes is seen."""

from collections import Counter
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from dataset_samples import EMBODIMENT, assert_equal_episodes, make_episode

from robomem.datasets.lanes import draw_visits
from robomem.datasets.lerobot_reader import EpisodeReader
from robomem.datasets.lerobot_writer import EpisodeWriter
from robomem.datasets.mixture import Mixture
from robomem.datasets.sequences import SequenceBatches
from robomem.errors import RobomemError, SpecMismatch


def record(root: Path, seeds: range, period: float = EMBODIMENT.action_dt) -> EpisodeReader:
    """A dataset of some episodes."""
    with EpisodeWriter(root, replace(EMBODIMENT, action_dt=period)) as writer:
        for seed in seeds:
            writer.save(make_episode(seed))
    return EpisodeReader(root)


def test_a_mixture_is_its_sources_one_after_another(tmp_path: Path) -> None:
    mixture = Mixture([record(tmp_path / "a", range(3)), record(tmp_path / "b", range(10, 14))], ["a", "b"])
    seeds = (0, 1, 2, 10, 11, 12, 13)
    assert (mixture.seeds, len(mixture), mixture.indices) == (seeds, 7, tuple(range(7)))
    for position, (episode, seed) in enumerate(zip(mixture, seeds, strict=True)):
        assert_equal_episodes(episode, make_episode(seed))
        assert_equal_episodes(mixture[position], episode)
        assert mixture.lengths[position] == len(mixture.without_images(position)) == len(episode)
    assert_equal_episodes(mixture[-1], make_episode(13))


def test_another_robot_is_not_mixed_in(tmp_path: Path) -> None:
    sources = [record(tmp_path / "a", range(2)), record(tmp_path / "b", range(2), period=0.1)]
    with pytest.raises(SpecMismatch, match=r"action_dt: first has 0\.05, second has 0\.1"):
        Mixture(sources, ["first", "second"])


def test_episodes_are_visited_as_often_as_their_weights_say() -> None:
    weights = [0.25] * 8 + [2.5] * 4
    epochs = [Counter(draw_visits(weights, seed=0, epoch=epoch)) for epoch in range(400)]
    assert {sum(visits.values()) for visits in epochs} == {12}  # the sum of the weights, in every epoch
    assert all(visits[position] in (2, 3) for visits in epochs for position in range(8, 12))
    mean = np.array([[visits[position] for position in range(12)] for visits in epochs]).mean(0)
    np.testing.assert_allclose(mean, weights, atol=0.1)
    assert draw_visits(weights, 0, 7) == draw_visits(weights, 0, 7) != draw_visits(weights, 1, 7)


def test_windows_hold_the_visits_of_an_epoch(tmp_path: Path) -> None:
    reader = record(tmp_path, range(6))
    weights = [0.0, 0.0, 1.0, 1.0, 2.0, 2.0]
    windows = list(SequenceBatches(reader, 2, 4, 1, seed=0, weights=weights).epoch(0))
    begun = sum(int(window.is_first.sum()) for window in windows)
    ticks = sum(int(window.valid.sum()) for window in windows)
    assert begun == 6
    assert ticks == np.dot(weights, reader.lengths)
    with pytest.raises(RobomemError, match="6 episodes cannot fill 7 lanes"):
        SequenceBatches(reader, 7, 4, 1, seed=0, weights=weights)
