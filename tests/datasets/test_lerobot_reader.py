"""What was written is read back bit for bit; what cannot be read says why."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from dataset_samples import EMBODIMENT, assert_equal_episodes, make_episode

from robomem.datasets import lerobot_format as form
from robomem.datasets.cached import episode_bytes
from robomem.datasets.encoding import decode_png
from robomem.datasets.lerobot_index import read_parquet
from robomem.datasets.lerobot_reader import EpisodeReader
from robomem.datasets.lerobot_writer import EpisodeWriter
from robomem.datasets.statistics import compute_statistics
from robomem.errors import RobomemError, SpecMismatch

SEEDS = (3, 1, 4, 2, 9, 6)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A dataset of six episodes in two files."""
    with EpisodeWriter(tmp_path, EMBODIMENT, provenance={"task": "sorting"}) as writer:
        for seed in SEEDS[:5]:
            writer.save(make_episode(seed))
    writer = EpisodeWriter(tmp_path, EMBODIMENT)
    writer.save(make_episode(SEEDS[5]))
    writer.__exit__(KeyboardInterrupt, None, None)
    return tmp_path


def test_episodes_are_read_as_they_were_written(root: Path) -> None:
    reader = EpisodeReader(root)
    assert (len(reader), reader.seeds, reader.provenance) == (6, SEEDS, {"task": "sorting"})
    assert reader.lengths == tuple(3 + seed % 5 for seed in SEEDS)
    assert reader.embodiment == EMBODIMENT
    for episode, seed in zip(reader, SEEDS, strict=True):
        assert_equal_episodes(episode, make_episode(seed))
        episode.check(EMBODIMENT)
    assert_equal_episodes(reader[-1], make_episode(SEEDS[-1]))


def make_videos(root: Path) -> None:
    """Move the frames of the only data file into lossless videos, one of each camera, as LeRobot lays them out."""
    import av

    path, table_path = root / DATA, root / "meta/episodes/chunk-000/file-000.parquet"
    rows, episodes, info = read_parquet(path), read_parquet(table_path), json.loads((root / form.INFO).read_text())
    ends = np.cumsum(episodes["length"].to_numpy()) / info["fps"]
    for camera in EMBODIMENT.cameras:
        feature = f"observation.images.{camera.name}"
        video = root / f"videos/{feature}/chunk-000/file-000.mp4"
        video.parent.mkdir(parents=True)
        with av.open(str(video), "w") as container:
            stream: Any = container.add_stream("libx264rgb", rate=info["fps"], options={"qp": "0", "g": "3"})
            stream.width, stream.height, stream.pix_fmt = camera.width, camera.height, "rgb24"
            for png in rows[feature].to_pylist():
                frame = decode_png(png["bytes"])
                assert frame is not None
                container.mux(stream.encode(av.VideoFrame.from_ndarray(frame, format="rgb24")))
            container.mux(stream.encode())
        rows = rows.drop_columns([feature])
        times = {"from_timestamp": [0.0, *ends[:-1]], "to_timestamp": ends}
        for name, values in {"chunk_index": [0] * len(ends), "file_index": [0] * len(ends), **times}.items():
            episodes = episodes.append_column(f"videos/{feature}/{name}", pa.array(values))
        info["features"][feature]["dtype"] = "video"
    info["video_path"] = "videos/{video_key}/chunk-{chunk_index:03d}/file-{file_index:03d}.mp4"
    (root / form.INFO).write_text(json.dumps(info))
    pq.write_table(episodes, table_path)
    with pq.ParquetWriter(path, rows.schema) as writer:
        for first, length in zip(
            episodes["dataset_from_index"].to_pylist(), episodes["length"].to_pylist(), strict=True
        ):
            writer.write_table(rows.slice(first, length))


def test_videos_are_read_by_the_number_of_their_frames(tmp_path: Path) -> None:
    with EpisodeWriter(tmp_path, EMBODIMENT) as writer:
        for seed in SEEDS:
            writer.save(make_episode(seed))
    make_videos(tmp_path)
    reader = EpisodeReader(tmp_path, [3, 0, 5, 1])
    for episode, seed in zip(reader, (2, 3, 6, 1), strict=True):
        assert_equal_episodes(episode, make_episode(seed))
    assert not reader.without_images(2).images


def test_success_is_latched(tmp_path: Path) -> None:
    never, passing = np.zeros(4, np.bool_), np.array([False, True, False, False])
    with EpisodeWriter(tmp_path, EMBODIMENT) as writer:
        writer.save(replace(make_episode(1), success=never))
        writer.save(replace(make_episode(1), success=passing))
    assert EpisodeReader(tmp_path).successes == (False, True)


def test_a_subset_keeps_its_order(root: Path) -> None:
    reader = EpisodeReader(root, episodes=[4, 0, 5])
    assert (reader.seeds, reader.indices) == ((9, 3, 6), (4, 0, 5))
    for position, seed in enumerate((9, 3, 6)):
        assert_equal_episodes(reader[position], make_episode(seed))
    with pytest.raises(RobomemError, match="episodes 0 to 5; there is no episode 6"):
        EpisodeReader(root, episodes=[0, 6])
    with pytest.raises(RobomemError, match="no episode to read"):
        EpisodeReader(root, episodes=[])


def test_the_cache_is_bounded_in_bytes(root: Path) -> None:
    sizes = [episode_bytes(make_episode(seed)) for seed in SEEDS]
    assert sizes[0] == 6 * 3 * (8 * 12 + 10 * 10) + 6 * (4 * (5 + 3 + 1) + 8 + 1)
    reader = EpisodeReader(root, cache_bytes=sizes[0] + sizes[1])
    first = reader[0]
    assert reader[0] is first
    reader[1]
    assert reader[0] is first  # and now the more recently used
    reader[3]
    reader[4]
    assert reader[0] is not first
    assert EpisodeReader(root)[0] is not EpisodeReader(root)[0]


def test_episodes_cannot_be_changed_by_accident(root: Path) -> None:
    episode = EpisodeReader(root)[0]
    for array in (*episode.images.values(), episode.proprio, episode.actions, episode.success):
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 0


def test_another_embodiment_is_named(root: Path) -> None:
    other = replace(EMBODIMENT, cameras=EMBODIMENT.cameras[:1])
    with pytest.raises(SpecMismatch, match=r"the dataset has \['base', 'hand'\], the policy has \['base'\]"):
        EpisodeReader(root).embodiment.check(other, "the dataset", "the policy", "train another")


def test_a_missing_dataset_is_named(root: Path, tmp_path: Path) -> None:
    with pytest.raises(RobomemError, match=r"there is no dataset at .*nowhere; .*robomem collect"):
        EpisodeReader(tmp_path / "nowhere")
    (root / form.ROBOMEM).unlink()
    with pytest.raises(RobomemError, match=r"is not a dataset of RoboMem: meta/robomem.json is missing"):
        EpisodeReader(root)


def test_an_empty_dataset_is_named(tmp_path: Path) -> None:
    EpisodeWriter(tmp_path, EMBODIMENT).close()
    with pytest.raises(RobomemError, match="no episode to read"):
        EpisodeReader(tmp_path)


DATA = "data/chunk-000/file-000.parquet"


def truncate(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-100])


def flip_a_bit(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[len(data) // 4] ^= 4
    path.write_bytes(data)


@pytest.mark.parametrize(
    ("name", "harm", "message"),
    [
        (DATA, Path.unlink, "data is damaged .*holds 1 episodes, meta/info.json counts 6"),
        (DATA, truncate, "file-000.parquet is damaged"),
        (DATA, flip_a_bit, "file-000.parquet is damaged"),
        ("meta/episodes/chunk-000/file-000.parquet", truncate, "meta/episodes/.*file-000.parquet is damaged"),
        (form.INFO, truncate, "info.json is damaged"),
    ],
)
def test_a_damaged_file_is_named(root: Path, name: str, harm: Callable[[Path], None], message: str) -> None:
    harm(root / name)
    with pytest.raises(RobomemError, match=rf"^[^\n]*{message}[^\n]*restore it from a copy or collect[^\n]*$"):
        list(EpisodeReader(root))


def test_a_file_that_vanishes_while_reading_is_named(root: Path) -> None:
    reader = EpisodeReader(root)
    (root / DATA).unlink()
    with pytest.raises(RobomemError, match=r"file-000.parquet is missing; restore"):
        reader[0]


@pytest.mark.parametrize("episodes", [None, [5, 2], [0]])
def test_statistics_are_those_of_all_ticks(root: Path, episodes: list[int] | None) -> None:
    reader = EpisodeReader(root, episodes)
    statistics = compute_statistics(reader)
    assert statistics.ticks == sum(reader.lengths)
    for found, name in ((statistics.proprio, "proprio"), (statistics.action, "actions")):
        values = np.concatenate([getattr(episode, name) for episode in reader]).astype(np.float64)
        np.testing.assert_allclose(found.mean, values.mean(axis=0))
        np.testing.assert_allclose(found.std, values.std(axis=0))
        np.testing.assert_array_equal(found.low, values.min(axis=0))
        np.testing.assert_array_equal(found.high, values.max(axis=0))
    assert compute_statistics(EpisodeReader(root, episodes)).digest == statistics.digest


def test_statistics_decode_no_frame(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("robomem.datasets.lerobot_reader.decode_png", None)
    compute_statistics(EpisodeReader(root))
