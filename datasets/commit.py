"""Appends one episode to a dataset; replacing `meta/info.json` is what makes it count."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from robomem.datasets import lerobot_format as form
from robomem.datasets.encoding import EncodedEpisode, FeatureStatistics, decode_png, image_feature, merge_statistics
from robomem.datasets.lerobot_index import DatasetIndex, damaged, read_parquet, reading
from robomem.files import write_atomic, write_json


@dataclass(frozen=True)
class Committed:
    """What is on disk, as of the last commit."""

    info: dict[str, Any]
    tasks: tuple[str, ...]
    statistics: Mapping[str, FeatureStatistics]
    data_files: int
    episode_files: int


def load_committed(index: DatasetIndex) -> Committed:
    """What an opened dataset holds; brings `meta/stats.json` up to date."""
    statistics = _statistics(index)
    if statistics:
        write_json(index.root / form.STATISTICS, _plain(statistics))
    return Committed(
        info=index.info,
        tasks=tuple(_tasks(index.root / form.TASKS) if len(index.episodes) else ()),
        statistics=statistics,
        data_files=len(index.files),
        episode_files=len(index.episode_files),
    )


def _tasks(path: Path) -> list[str]:
    with reading(path):
        return read_parquet(path).sort_by("task_index")["task"].to_pylist()


def _statistics(index: DatasetIndex) -> Mapping[str, FeatureStatistics]:
    """Merged statistics of the committed episodes from their rows, since `meta/stats.json` may be one episode ahead."""
    if not len(index.episodes):
        return {}
    parts: list[dict[str, dict[str, np.ndarray]]] = [{} for _ in range(len(index.episodes))]
    for column in index.episodes.column_names:
        if column.startswith("stats/"):
            _, feature, name = column.split("/")
            for part, value in zip(parts, index.episodes[column].to_pylist(), strict=True):
                part.setdefault(feature, {})[name] = np.array(value)
    return merge_statistics(parts)


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
    _write_rows(root, before, encoded, automatic)
    if tasks != before.tasks:
        write_atomic(root / form.TASKS, form.tasks_bytes(list(tasks)))
    write_json(root / form.STATISTICS, _plain(statistics))
    counted = _counted(info, len(encoded), len(tasks))
    write_json(root / form.INFO, counted)
    return Committed(counted, tasks, statistics, before.data_files + 1, before.episode_files + 1)


def _write_rows(root: Path, before: Committed, encoded: EncodedEpisode, automatic: Mapping[str, np.ndarray]) -> None:
    """Write the two files of an episode."""
    table = form.data_table(encoded, automatic, form.data_schema(before.info["features"]))
    row = form.episode_row(encoded, automatic, before.data_files, before.episode_files)
    data = form.parquet_path(root / form.DATA, before.data_files)
    write_atomic(data, form.table_bytes(table), verify=lambda path: _verify(path, table, encoded))
    write_atomic(form.parquet_path(root / form.EPISODES, before.episode_files), form.table_bytes(row))


def _counted(info: Mapping[str, Any], ticks: int, tasks: int) -> dict[str, Any]:
    """`meta/info.json` after one more episode."""
    episodes = info["total_episodes"] + 1
    counts = {"total_episodes": episodes, "total_frames": info["total_frames"] + ticks, "total_tasks": tasks}
    return {**info, **counts, "splits": {"train": f"0:{episodes}"}}


def _verify(path: Path, table: pa.Table, encoded: EncodedEpisode) -> None:
    """Raise unless a file holds these rows and its last frames decode to the original ones."""
    with reading(path):
        found = read_parquet(path)
    if not found.equals(table):
        raise damaged(path, f"it was read back with {len(found)} rows that differ from the {len(table)} written")
    for camera, original in encoded.last_frames.items():
        frame = decode_png(found[image_feature(camera)][-1].as_py()["bytes"])
        if frame is None or not np.array_equal(frame, original):
            raise damaged(path, f"the last frame of camera {camera} is not the one recorded")


def _plain(statistics: Mapping[str, FeatureStatistics]) -> dict[str, dict[str, Any]]:
    return {feature: {k: v.tolist() for k, v in numbers.items()} for feature, numbers in statistics.items()}
