"""What is written opens in LeRobot with equal content, and what was saved is never lost."""

import errno
import json
import multiprocessing
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from dataset_samples import EMBODIMENT, assert_equal_episodes, make_episode

from robomem import files
from robomem.datasets import compaction
from robomem.datasets import lerobot_format as form
from robomem.datasets.config import FrameCodec
from robomem.datasets.encoding import encode
from robomem.datasets.lerobot_index import load_index
from robomem.datasets.lerobot_reader import EpisodeReader
from robomem.datasets.lerobot_writer import EpisodeWriter
from robomem.episode import Episode
from robomem.errors import NonFiniteError, RobomemError, SpecMismatch
from robomem.spec import CameraSpec


def write(root: Path, seeds: range, *, merge: bool = True) -> list[Episode]:
    """Save an episode for each seed; without `merge` the writer leaves as if interrupted."""
    episodes = [make_episode(seed) for seed in seeds]
    writer = EpisodeWriter(root, EMBODIMENT, provenance={"task": "sorting"})
    for episode in episodes:
        writer.save(episode)
    if merge:
        writer.close()
    else:
        writer.__exit__(KeyboardInterrupt, None, None)
    return episodes


def assert_holds(root: Path, seeds: range) -> None:
    """The dataset holds exactly the episodes of these seeds."""
    reader = EpisodeReader(root)
    assert reader.seeds == tuple(seeds)
    for position, seed in enumerate(seeds):
        assert_equal_episodes(reader[position], make_episode(seed))


def assert_lerobot_holds(root: Path, episodes: list[Episode]) -> None:
    """LeRobot opens the dataset and finds these episodes."""
    from lerobot.datasets import LeRobotDataset

    dataset: Any = LeRobotDataset("local/test", root=root)
    assert (dataset.num_episodes, dataset.num_frames) == (len(episodes), sum(map(len, episodes)))
    assert dataset.fps == 20
    row = 0
    for index, episode in enumerate(episodes):
        assert dataset.meta.episodes[index]["length"] == len(episode)
        assert dataset.meta.episodes[index]["seed"] == episode.seed
        for tick in range(len(episode)):
            item = dataset[row]
            assert (item["episode_index"], item["index"]) == (index, row)
            for camera, frames in episode.images.items():
                pixels = (item[f"observation.images.{camera}"] * 255).round().byte().permute(1, 2, 0)
                np.testing.assert_array_equal(pixels.numpy(), frames[tick], strict=True)
            np.testing.assert_array_equal(item["observation.state"].numpy(), episode.proprio[tick], strict=True)
            np.testing.assert_array_equal(item["action"].numpy(), episode.actions[tick], strict=True)
            assert item["timestamp"] == np.float32(tick / 20)
            assert item["capture_time"] == np.float32(episode.timestamps[tick])
            assert item["next.reward"] == episode.reward[tick]
            assert item["next.success"] == episode.success[tick]
            assert item["task"] == episode.instruction
            row += 1


@pytest.mark.parametrize("merge", [False, True])
def test_lerobot_opens_it_with_equal_content(tmp_path: Path, hf_cache: None, merge: bool) -> None:
    episodes = write(tmp_path, range(7), merge=merge)
    assert len(form.parquet_files(tmp_path / form.DATA)) == (1 if merge else 7)
    assert compaction.is_renumbered(load_index(tmp_path))
    assert_lerobot_holds(tmp_path, episodes)


def test_format_is_the_one_that_lerobot_makes(tmp_path: Path) -> None:
    from lerobot.datasets.compute_stats import aggregate_stats, get_feature_stats
    from lerobot.datasets.feature_utils import create_empty_dataset_info, get_hf_features_from_features
    from lerobot.datasets.io_utils import load_stats

    episodes = write(tmp_path, range(4))
    info = form.new_info(EMBODIMENT, FrameCodec())
    theirs = create_empty_dataset_info(
        "v3.0", 20, form.new_info(EMBODIMENT, FrameCodec())["features"], use_videos=False
    )
    assert info == json.loads(json.dumps(theirs.to_dict()))
    features = {name: {**feature, "shape": tuple(feature["shape"])} for name, feature in info["features"].items()}
    schema = get_hf_features_from_features(features).arrow_schema
    assert form.data_schema(info["features"]).equals(schema, check_metadata=False)
    metadata = [json.loads(s.metadata[b"huggingface"]) for s in (form.data_schema(info["features"]), schema)]
    assert metadata[0] == metadata[1]

    parts = [
        {
            "action": get_feature_stats(episode.actions, axis=0, keepdims=False),
            "observation.images.base": {
                name: value if name == "count" else value.reshape(3, 1, 1) / 255
                for name, value in get_feature_stats(
                    episode.images["base"].transpose(0, 3, 1, 2), axis=(0, 2, 3), keepdims=True
                ).items()
            },
        }
        for episode in episodes
    ]
    saved = load_stats(tmp_path)
    assert saved is not None
    assert set(saved) == set(info["features"])
    for feature, numbers in aggregate_stats(parts).items():
        assert set(saved[feature]) == set(numbers)
        for name, value in numbers.items():
            tolerance = 5e-3 if name.startswith("q") else 1e-5  # LeRobot takes quantiles from histograms
            np.testing.assert_allclose(saved[feature][name], value, atol=tolerance)


def test_reopening_appends(tmp_path: Path) -> None:
    write(tmp_path, range(3))
    with EpisodeWriter(tmp_path, EMBODIMENT, provenance={"task": "other"}) as writer:
        assert (writer.seeds, writer.provenance) == ((0, 1, 2), {"task": "sorting"})
        assert writer.save(make_episode(3)) == 3
        assert (len(writer), writer.ticks) == (4, 3 + 4 + 5 + 6)
    assert_holds(tmp_path, range(4))


def test_episodes_encoded_elsewhere_are_saved(tmp_path: Path) -> None:
    context = multiprocessing.get_context("spawn")
    with EpisodeWriter(tmp_path, EMBODIMENT) as writer, ProcessPoolExecutor(1, mp_context=context) as pool:
        writer.save(pool.submit(encode, make_episode(0), EMBODIMENT).result())
    assert_holds(tmp_path, range(1))


def test_another_embodiment_is_refused(tmp_path: Path) -> None:
    write(tmp_path, range(1))
    wide = replace(EMBODIMENT, cameras=(CameraSpec(name="base", height=8, width=16), EMBODIMENT.cameras[1]))
    with pytest.raises(SpecMismatch, match=r"cameras\[base\].width: the dataset .* has 12, the new episodes has 16"):
        EpisodeWriter(tmp_path, wide)
    frames = {"base": np.zeros((3, 8, 16, 3), np.uint8), "hand": np.zeros((3, 10, 10, 3), np.uint8)}
    episode = replace(make_episode(0), images=frames)
    with EpisodeWriter(tmp_path, EMBODIMENT) as writer:
        with pytest.raises(SpecMismatch, match="dataset"):
            writer.save(encode(episode, wide))
        with pytest.raises(SpecMismatch, match=r"images\[base\]"):
            writer.save(episode)
    assert_holds(tmp_path, range(1))


def test_bad_episodes_are_refused_and_leave_no_trace(tmp_path: Path) -> None:
    actions = make_episode(1).actions.copy()
    actions[2, 1] = np.nan
    with EpisodeWriter(tmp_path, EMBODIMENT) as writer:
        writer.save(make_episode(0))
        with pytest.raises(NonFiniteError, match=r"actions .* seed 1 .* tick 2"):
            writer.save(replace(make_episode(1), actions=actions))
        with pytest.raises(RobomemError, match="no tick"):
            writer.save(make_episode(1, ticks=0))
        assert writer.save(make_episode(1)) == 1
    assert_holds(tmp_path, range(2))


def test_two_writers_are_refused(tmp_path: Path) -> None:
    with EpisodeWriter(tmp_path, EMBODIMENT) as writer:
        with pytest.raises(RobomemError, match="another process is writing"):
            EpisodeWriter(tmp_path, EMBODIMENT)
        writer.save(make_episode(0))
    with pytest.raises(RuntimeError, match="closed"):
        writer.save(make_episode(1))
    EpisodeWriter(tmp_path, EMBODIMENT).close()


def test_a_folder_with_something_else_is_refused(tmp_path: Path) -> None:
    (tmp_path / "thesis.tex").write_text("...")
    with pytest.raises(RobomemError, match=r"thesis.tex and is no dataset"):
        EpisodeWriter(tmp_path, EMBODIMENT)
    with pytest.raises(RobomemError, match="is a file"):
        EpisodeWriter(tmp_path / "thesis.tex", EMBODIMENT)
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.tex"]


def test_a_file_that_was_written_wrongly_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def flip(table: object, original: Callable[..., bytes] = form.table_bytes) -> bytes:
        data = bytearray(original(table))
        data[len(data) // 3] ^= 1
        return bytes(data)

    with EpisodeWriter(tmp_path, EMBODIMENT) as writer:
        writer.save(make_episode(0))
        with monkeypatch.context() as patch:
            patch.setattr(form, "table_bytes", flip)
            with pytest.raises(RobomemError, match=r"file-001.parquet.tmp is damaged"):
                writer.save(make_episode(1))
        writer.save(make_episode(1))
    assert_holds(tmp_path, range(2))


class Interruption(BaseException):
    """Stands for a kill: nothing handles it."""


def failing(at: int, error: BaseException, function: Callable[..., object]) -> Callable[..., object]:
    """The function, raising instead of its call number `at` and of every later one."""
    calls = iter(range(10**6))

    def call(*args: object, **kwargs: object) -> object:
        if next(calls) >= at:
            raise error
        return function(*args, **kwargs)

    return call


@pytest.mark.parametrize("at", range(6))
def test_an_interrupted_save_leaves_the_dataset_as_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, hf_cache: None, at: int
) -> None:
    """Saving a new task replaces five files; the last is the commit."""
    write(tmp_path, range(2), merge=False)
    with EpisodeWriter(tmp_path, EMBODIMENT) as writer, monkeypatch.context() as patch:
        patch.setattr(Path, "replace", failing(at, Interruption(), Path.replace))
        if at < 5:
            with pytest.raises(Interruption):
                writer.save(make_episode(2))
        else:
            writer.save(make_episode(2))
        patch.setattr(compaction, "compact", failing(0, Interruption(), compaction.compact))
        saved = range(3 if at == 5 else 2)
        assert_holds(tmp_path, saved)
        assert_lerobot_holds(tmp_path, [make_episode(seed) for seed in saved])
    with EpisodeWriter(tmp_path, EMBODIMENT) as writer:
        assert writer.seeds == tuple(saved)
        writer.save(make_episode(len(saved)))
    assert_holds(tmp_path, range(len(saved) + 1))
    assert not list(tmp_path.rglob("*.tmp"))
    counts = json.loads((tmp_path / form.STATISTICS).read_text())["action"]["count"]
    assert counts == [json.loads((tmp_path / form.INFO).read_text())["total_frames"]]


@pytest.mark.parametrize("at", range(0, 12))
def test_a_full_disk_is_one_line_and_loses_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, at: int) -> None:
    with EpisodeWriter(tmp_path, EMBODIMENT) as writer:
        writer.save(make_episode(0))
        with monkeypatch.context() as patch:
            full = OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            patch.setattr(os, "fsync", failing(at, full, os.fsync))
            if at < 10:  # five files and their folders
                with pytest.raises(RobomemError, match=r"^[^\n]*seed 1 was not saved[^\n]*Free some space[^\n]*$"):
                    writer.save(make_episode(1))
            else:
                writer.save(make_episode(1))
        if at < 9:
            assert_holds(tmp_path, range(1))
            writer.save(make_episode(1))
    assert_holds(tmp_path, range(2))


@pytest.fixture
def tiny_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 600 kB."""
    disk = tmp_path / "disk"
    disk.mkdir()
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=600k", "none", disk], capture_output=True).returncode:
        pytest.skip("mounting a tmpfs needs root")
    yield disk
    subprocess.run(["umount", disk], check=True)


def test_a_really_full_disk(tiny_disk: Path) -> None:
    writer = EpisodeWriter(tiny_disk / "dataset", EMBODIMENT)

    def fill() -> None:
        for seed in range(100):
            writer.save(make_episode(seed))

    with pytest.raises(RobomemError, match="No space left on device"):
        fill()
    assert len(writer) > 2
    with pytest.raises(RobomemError, match="small files were not merged"):
        writer.close()
    assert_holds(tiny_disk / "dataset", range(len(writer)))


def test_merged_files_are_bounded(tmp_path: Path) -> None:
    write(tmp_path, range(9), merge=False)
    size = max(path.stat().st_size for path in form.parquet_files(tmp_path / form.DATA))
    compaction.compact(load_index(tmp_path), file_bytes=3 * size)
    sizes = [path.stat().st_size for path in form.parquet_files(tmp_path / form.DATA)]
    assert 3 <= len(sizes) <= 4
    assert max(sizes) <= 3 * size
    assert len(form.parquet_files(tmp_path / form.EPISODES)) == 1
    assert_holds(tmp_path, range(9))


@pytest.mark.parametrize("done", [False, True])
@pytest.mark.parametrize("at", [0, 1])
def test_an_interrupted_merge_is_whole_and_mended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, hf_cache: None, at: int, done: bool
) -> None:
    """Interrupted before or just after each of the two swaps."""
    episodes = write(tmp_path, range(4), merge=False)
    calls = iter(range(9))

    def swap(a: Path, b: Path) -> bool:
        interrupted = next(calls) == at
        if done or not interrupted:
            files.exchange_folders(a, b)
        if interrupted:
            raise Interruption
        return True

    with monkeypatch.context() as patch:
        patch.setattr(compaction, "exchange_folders", swap)
        with pytest.raises(Interruption):
            compaction.compact(load_index(tmp_path))
    assert len(form.parquet_files(tmp_path / form.DATA)) == (1 if at or done else 4)
    assert_holds(tmp_path, range(4))
    assert_lerobot_holds(tmp_path, episodes)
    EpisodeWriter(tmp_path, EMBODIMENT).close()
    assert not (tmp_path / ".compaction").exists()
    assert compaction.is_renumbered(load_index(tmp_path))
    assert_holds(tmp_path, range(4))
    assert_lerobot_holds(tmp_path, episodes)


def test_kill_never_loses_a_saved_episode(tmp_path: Path, hf_cache: None) -> None:
    root, clock, saved = tmp_path / "dataset", random.Random(0), ()
    script = Path(__file__).parents[1] / "support" / "dataset_samples.py"
    for _ in range(3):
        process = subprocess.Popen([sys.executable, script, root, "png"], stdout=subprocess.PIPE, text=True)
        assert process.stdout is not None
        first = process.stdout.readline()
        time.sleep(clock.uniform(0, 0.4))
        process.send_signal(signal.SIGKILL)
        reported = [int(line) for line in (first, *process.stdout)]
        process.wait()
        saved = EpisodeReader(root).seeds
        assert saved == tuple(range(len(saved)))
        assert len(saved) in (reported[-1] + 1, reported[-1] + 2)
        assert_holds(root, range(len(saved)))
    assert_lerobot_holds(root, [make_episode(seed) for seed in range(len(saved))])
    EpisodeWriter(root, EMBODIMENT).close()
    assert_holds(root, range(len(saved)))
