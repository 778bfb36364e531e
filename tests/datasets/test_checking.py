"""Damage is named, nothing crashes on it, a healthy dataset is left alone, and repair has back what is whole."""

import shutil
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from damage import EPISODES, Damage, record_healthy, record_videos, smooth_episode
from damages import CONTENT, FILES, ROWS, VIDEO
from dataset_samples import EMBODIMENT, assert_equal_episodes, make_episode

from robomem.datasets.checking.check import check_dataset
from robomem.datasets.checking.finding import ERROR, Finding
from robomem.datasets.checking.recordings import read_recording
from robomem.datasets.checking.repair import repair_dataset
from robomem.datasets.checking.survey import take_survey
from robomem.datasets.lerobot_reader import EpisodeReader
from robomem.datasets.lerobot_writer import EpisodeWriter
from robomem.datasets.open import open_source
from robomem.episode import Episode
from robomem.errors import RobomemError

HARMS = [*FILES, *ROWS, *CONTENT]
UNSEEN_BY_REPAIR = {"no-robot"}
"""What no repair can make anew."""


@pytest.fixture(scope="module")
def healthy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A dataset that RoboMem wrote."""
    root = tmp_path_factory.mktemp("healthy") / "dataset"
    record_healthy(root)
    return root


@pytest.fixture(scope="module")
def videos(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A dataset that LeRobot wrote."""
    root = tmp_path_factory.mktemp("videos") / "dataset"
    record_videos(root)
    return root


def check(root: Path) -> list[Finding]:
    """Findings, after the readers were seen to fail with nothing but an error that tells what to do."""
    with suppress(RobomemError):
        source = open_source(root)
        for position in range(len(source)):
            with suppress(RobomemError):
                source[position]
    return check_dataset(root)


def names(findings: Sequence[Finding]) -> set[tuple[str, int | str | None]]:
    """What the findings say, as the list of damages has it."""
    return {(f.check, f.file if f.episode is None else f.episode) for f in findings}


def episodes(root: Path) -> Iterator[Episode]:
    """Whole episodes by what lies in the files, whatever the readers need beyond that."""
    survey = take_survey(root)
    for segment in sorted(survey.segments, key=lambda segment: segment.episode):
        episode = read_recording(survey, segment).episode
        assert episode is not None
        yield replace(episode, seed=0)


def harmed(root: Path, tmp_path: Path, damage: Damage) -> tuple[Path, list[Finding]]:
    """A copy with a damage, and what is found in it."""
    copy = tmp_path / "damaged"
    shutil.copytree(root, copy)
    damage.harm(copy)
    return copy, check(copy)


def assert_repaired(root: Path, damaged: Path, findings: list[Finding], damage: Damage, out: Path) -> None:
    """All episodes but the lost ones are in the repaired dataset, bit for bit, and it is sound."""
    before = {path: path.read_bytes() for path in damaged.rglob("*") if path.is_file()}
    total = len(take_survey(root).segments)
    if len(damage.lost) == total:
        with pytest.raises(RobomemError, match=r"no episode of .* is whole; restore it"):
            repair_dataset(damaged, out, findings)
        assert not out.exists()
    else:
        repaired = repair_dataset(damaged, out, findings)
        assert set(repaired.lost) == damage.lost
        assert len(repaired.kept) >= total - len(damage.lost)
        originals = list(episodes(root))
        for found, index in zip(episodes(out), repaired.kept, strict=True):
            if index < total:
                assert_equal_episodes(found, replace(originals[index], instruction=found.instruction))
        assert not [f for f in check_dataset(out) if f.severity == ERROR and f.check not in UNSEEN_BY_REPAIR]
    assert {path: path.read_bytes() for path in damaged.rglob("*") if path.is_file()} == before


def test_a_healthy_dataset_has_no_finding(healthy: Path, videos: Path) -> None:
    assert not check(healthy)
    assert not check(videos)


def test_noise_of_a_few_ticks_has_no_finding(tmp_path: Path) -> None:
    with EpisodeWriter(tmp_path, EMBODIMENT) as writer:
        for seed in range(6):
            writer.save(make_episode(seed))
    assert not check(tmp_path)


def test_there_are_many_damages() -> None:
    all_names = [damage.name for damage in [*HARMS, *VIDEO]]
    assert len(set(all_names)) == len(all_names) >= 80


@pytest.mark.parametrize("damage", [*FILES, *ROWS], ids=lambda damage: damage.name)
def test_damage_is_named_and_repaired(healthy: Path, tmp_path: Path, damage: Damage) -> None:
    damaged, findings = harmed(healthy, tmp_path, damage)
    assert names(findings) == damage.found
    assert_repaired(healthy, damaged, findings, damage, tmp_path / "repaired")


@pytest.mark.parametrize("damage", VIDEO, ids=lambda damage: damage.name)
def test_damage_of_videos_is_named_and_repaired(videos: Path, tmp_path: Path, damage: Damage) -> None:
    damaged, findings = harmed(videos, tmp_path, damage)
    assert names(findings) == damage.found
    if damage.name != "videos swapped":  # which is copied as it is
        assert_repaired(videos, damaged, findings, damage, tmp_path / "repaired")


@pytest.mark.parametrize("damage", CONTENT, ids=lambda damage: damage.name)
def test_a_bad_recording_is_named(healthy: Path, tmp_path: Path, damage: Damage) -> None:
    damaged, findings = harmed(healthy, tmp_path, damage)
    assert names(findings) == damage.found
    repaired = repair_dataset(damaged, tmp_path / "repaired", findings)
    assert set(repaired.lost) == damage.lost
    expected = [episode for index, episode in enumerate(EpisodeReader(damaged)) if index not in damage.lost]
    for found, original in zip(EpisodeReader(tmp_path / "repaired"), expected, strict=True):
        assert_equal_episodes(found, original)


@pytest.mark.parametrize("name", ["data/chunk-000/file-001.parquet", "meta/episodes/chunk-000/file-001.parquet"])
def test_no_bit_of_a_parquet_file_flips_unseen(healthy: Path, tmp_path: Path, name: str) -> None:
    root = tmp_path / "dataset"
    shutil.copytree(healthy, root)
    data = (root / name).read_bytes()
    original = EpisodeReader(healthy)[4]
    seen = 0
    for place in np.linspace(4, len(data) - 1, 30).astype(int):
        (root / name).write_bytes(data[:place] + bytes([data[place] ^ 16]) + data[place + 1 :])
        if check(root):
            seen += 1
        else:  # such as the name of the program that wrote the file
            assert_equal_episodes(EpisodeReader(root)[4], original)
    assert seen > 10


def test_a_repaired_dataset_is_read_and_written_as_any_other(healthy: Path, tmp_path: Path) -> None:
    damaged, findings = harmed(healthy, tmp_path, next(d for d in FILES if d.name == "bit of an action"))
    out = tmp_path / "repaired"
    assert repair_dataset(damaged, out, findings).kept == (0, 1, 3, 4, 5)
    with EpisodeWriter(out, EpisodeReader(healthy).embodiment) as writer:
        assert writer.seeds == (100, 101, 103, 104, 105)
        writer.save(smooth_episode(9))
    assert not check(out)
    for found, seed in zip(EpisodeReader(out), (0, 1, 3, 4, 5, 9), strict=True):
        assert_equal_episodes(found, smooth_episode(seed))


def test_a_repaired_dataset_opens_in_lerobot(videos: Path, tmp_path: Path, hf_cache: None) -> None:
    from lerobot.datasets.lerobot_dataset import LeRobotDataset

    damaged, findings = harmed(videos, tmp_path, next(d for d in VIDEO if d.name == "video cut in the middle"))
    repair_dataset(damaged, tmp_path / "repaired", findings)
    dataset: Any = LeRobotDataset("local/x", root=tmp_path / "repaired")
    original: Any = LeRobotDataset("local/x", root=videos)
    assert (dataset.num_episodes, dataset.num_frames) == (2, 80)
    for row in (0, 41, 79):
        for key in ("observation.images.top", "observation.images.wrist", "action"):
            np.testing.assert_array_equal(dataset[row][key], original[row][key])
        assert dataset[row]["task"] == original[row]["task"]


def test_an_episode_that_was_not_counted_in_is_had_back(healthy: Path, tmp_path: Path) -> None:
    damaged, findings = harmed(healthy, tmp_path, next(d for d in FILES if d.name == "writer killed"))
    assert len(EpisodeReader(damaged)) == EPISODES
    repair_dataset(damaged, tmp_path / "repaired", findings)
    assert_equal_episodes(EpisodeReader(tmp_path / "repaired")[EPISODES], smooth_episode(7))


def test_repair_refuses_what_it_would_overwrite(healthy: Path, tmp_path: Path) -> None:
    with pytest.raises(RobomemError, match="exists; give a new folder"):
        repair_dataset(healthy, tmp_path, [])
    with pytest.raises(RobomemError, match="which stays as it is; give a folder elsewhere"):
        repair_dataset(healthy, healthy / "repaired", [])
    with pytest.raises(RobomemError, match="is no LeRobotDataset; convert"):
        repair_dataset(tmp_path, tmp_path / "repaired", [])


def test_no_dataset_is_named(tmp_path: Path) -> None:
    with pytest.raises(RobomemError, match="there is no dataset at"):
        check_dataset(tmp_path / "nowhere")
    with pytest.raises(RobomemError, match="is not a dataset"):
        check_dataset(tmp_path)
