"""Appends one episode to a dataset; replacing `meta/info.json` is what makes it count."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from robomem.datasets import lerobot_format as form
from robomem.datasets.encoding import EncodedEpisode, FeatureStatistics, decode_png, image_feature, merge_statistics
from robomem.datasets.lerobot_index import DatasetIndex, damaged, episode_statistics, read_parquet, reading
from robomem.datasets.video_frames import Clip, next_video, read_clip
from robomem.files import write_atomic, write_json


@dataclass(frozen=True)
class Committed:
    """What is on disk, as of the last commit."""

    info: dict[str, Any]
    tasks: tuple[str, ...]
    statistics: Mapping[str, FeatureStatistics]
    next: form.FileNumbers
    """Of the files of the next episode."""


def load_committed(index: DatasetIndex) -> Committed:
    """What an opened dataset holds; brings `meta/stats.json` up to date."""
    statistics = _statistics(index)
    if statistics:
        write_json(index.root / form.STATISTICS, _plain(statistics))
    return Committed(
        info=index.info,
        tasks=tuple(_tasks(index.root / form.TASKS) if len(index.episodes) else ()),
        statistics=statistics,
        next=form.FileNumbers(
            data=len(index.files), episodes=len(index.episode_files), video=next_video(index.info, index.episodes)
        ),
    )


def _tasks(path: Path) -> list[str]:
    with reading(path):
        return read_parquet(path).sort_by("task_index")["task"].to_pylist()


def _statistics(index: DatasetIndex) -> Mapping[str, FeatureStatistics]:
    """Merged statistics of the committed episodes from their rows, since `meta/stats.json` may be one episode ahead."""
    if not len(index.episodes):
        return {}
    return merge_statistics(episode_statistics(index.episodes))


def commit(root: Path, before: Committed, encoded: EncodedEpisode) -> Committed:
    """Write an episode and count it."""
    info = before.info
    tasks = before.tasks if encoded.instruction in before.tasks else (*before.tasks, encoded.instruction)
    automatic = form.automatic_columns(
        len(encoded), info["fps"], info["total_episodes"], info["total_frames"], tasks.index(encoded.instruction)
    )
    statistics = form.all_statistics(encoded, automatic)
    if before.statistics:
        statistics = merge_statistics([before.statistics, statistics])
    _write_videos(root, before, encoded)
    _write_rows(root, before, encoded, automatic)
    if tasks != before.tasks:
        write_atomic(root / form.TASKS, form.tasks_bytes(list(tasks)))
    write_json(root / form.STATISTICS, _plain(statistics))
    counted = _counted(info, len(encoded), len(tasks))
    write_json(root / form.INFO, counted)
    numbers = form.FileNumbers(**{name: number + 1 for name, number in asdict(before.next).items()})
    return Committed(counted, tasks, statistics, numbers)


def _write_videos(root: Path, before: Committed, encoded: EncodedEpisode) -> None:
    """Write a file for each camera, if its frames are a video."""
    episode = before.info["total_episodes"]
    for camera, frames in encoded.frames.items():
        if isinstance(frames.data, bytes):
            path = form.video_path(root, image_feature(camera), before.next.video)
            write_atomic(path, frames.data, partial(_verify_video, episode=episode, camera=camera, encoded=encoded))


def _verify_video(path: Path, episode: int, camera: str, encoded: EncodedEpisode) -> None:
    """Raise unless the last frame in a file is the one that was encoded."""
    last = encoded.frames[camera].last
    clip = Clip(path=path, episode=episode, first=len(encoded) - 1, count=1, fps=encoded.embodiment.fps)
    if not np.array_equal(read_clip(clip, *last.shape[:2])[0], last):
        raise damaged(path, f"the last frame of camera {camera} is not the one recorded")


def _write_rows(root: Path, before: Committed, encoded: EncodedEpisode, automatic: Mapping[str, np.ndarray]) -> None:
    """Write the two files of an episode."""
    table = form.data_table(encoded, automatic, form.data_schema(before.info["features"]))
    row = form.episode_row(encoded, automatic, before.next)
    data = form.parquet_path(root / form.DATA, before.next.data)
    write_atomic(data, form.table_bytes(table), verify=lambda path: _verify(path, table, encoded))
    write_atomic(form.parquet_path(root / form.EPISODES, before.next.episodes), form.table_bytes(row))


def _counted(info: Mapping[str, Any], ticks: int, tasks: int) -> dict[str, Any]:
    """`meta/info.json` after one more episode."""
    episodes = info["total_episodes"] + 1
    counts = {"total_episodes": episodes, "total_frames": info["total_frames"] + ticks, "total_tasks": tasks}
    return {**info, **counts, "splits": {"train": f"0:{episodes}"}}


def _verify(path: Path, table: pa.Table, encoded: EncodedEpisode) -> None:
    """Raise unless a file holds these rows, and its last images, if any, decode to the original ones."""
    with reading(path):
        found = read_parquet(path)
    if not found.equals(table):
        raise damaged(path, f"it was read back with {len(found)} rows that differ from the {len(table)} written")
    if not encoded.codec.is_video:
        _verify_images(path, found, encoded)


def _verify_images(path: Path, found: pa.Table, encoded: EncodedEpisode) -> None:
    for camera, frames in encoded.frames.items():
        frame = decode_png(found[image_feature(camera)][-1].as_py()["bytes"])
        if frame is None or not np.array_equal(frame, frames.last):
            raise damaged(path, f"the last frame of camera {camera} is not the one recorded")


def _plain(statistics: Mapping[str, FeatureStatistics]) -> dict[str, dict[str, Any]]:
    return {feature: {k: v.tolist() for k, v in numbers.items()} for feature, numbers in statistics.items()}
