"""Merges the many small files of a recording into files of up to 100 MB, and of 200 MB for videos.

New folders are built aside and swapped in by one system call each, the data first. LeRobot reads rows in the order of
the files' paths and the reader finds an episode by its rank; merged videos have new numbers, and the old ones stay
until the table of episodes names the new. So the dataset is whole before, between and after the swaps; an interruption
leaves at most a folder aside, outdated file numbers and videos that nothing names, which the next opening mends.
"""

import logging
import os
import shutil
from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from robomem.datasets import lerobot_format as form
from robomem.datasets.lerobot_index import DatasetIndex, damaged, load_index
from robomem.datasets.video_frames import remove_unnamed
from robomem.datasets.video_remux import merge_videos
from robomem.files import exchange_folders, sync, write_atomic

_ASIDE = ".compaction"
_logger = logging.getLogger(__name__)


def compact(
    index: DatasetIndex, file_bytes: int = form.FILE_MB * 10**6, video_bytes: int = form.VIDEO_MB * 10**6
) -> None:
    """Merge small files; does nothing where the file system cannot swap folders.

    Args:
        index: The dataset; it must hold nothing uncommitted, and nobody else may write it.
        file_bytes: Most bytes of a merged file of rows.
        video_bytes: Most bytes of a merged video.
    """
    remove_aside(index.root)
    groups = _groups([file.path for file in index.files], file_bytes)
    if len(groups) < len(index.files):
        folder = index.root / _ASIDE / form.DATA
        for number, group in enumerate(groups):
            _merge(group, form.parquet_path(folder, number))
        _check_rows(folder, index)
        if not exchange_folders(folder, index.root / form.DATA):
            _logger.warning("%s keeps its small files: this file system cannot swap folders", index.root)
        remove_aside(index.root)
        index = load_index(index.root)
    table = merge_videos(index, index.root / _ASIDE, video_bytes)
    if len(index.episode_files) > 1 or table != index.episodes:
        renumber(index, table)
        remove_unnamed(index.root, index.info, load_index(index.root).episodes)


def renumber(index: DatasetIndex, table: pa.Table) -> None:
    """Write the episodes' table as one file that names the data file of each episode."""
    chunks, files = zip(*(form.chunk_and_file(file) for file, _ in index.places), strict=True)
    zeros = [0] * len(files)
    for name, numbers in (
        ("data/chunk_index", chunks),
        ("data/file_index", files),
        ("meta/episodes/chunk_index", zeros),
        ("meta/episodes/file_index", zeros),
    ):
        table = table.set_column(table.schema.get_field_index(name), name, pa.array(numbers, pa.int64()))
    folder = index.root / _ASIDE / form.EPISODES
    write_atomic(form.parquet_path(folder, 0), form.table_bytes(table))
    exchange_folders(folder, index.root / form.EPISODES)
    remove_aside(index.root)


def is_renumbered(index: DatasetIndex) -> bool:
    """Whether the episodes' table names the right data files."""
    if not len(index.episodes):
        return True
    named = zip(*(index.episodes[f"data/{part}_index"].to_pylist() for part in ("chunk", "file")), strict=True)
    return list(named) == [form.chunk_and_file(file) for file, _ in index.places]


def remove_aside(root: Path) -> None:
    """Remove what an interrupted compaction left."""
    shutil.rmtree(root / _ASIDE, ignore_errors=True)


def _groups(paths: Sequence[Path], file_bytes: int) -> list[list[Path]]:
    """Consecutive files that fit into one."""
    groups: list[list[Path]] = []
    room = 0
    for path in paths:
        size = path.stat().st_size
        if size > room:
            groups.append([])
            room = file_bytes
        groups[-1].append(path)
        room -= size
    return groups


def _merge(sources: Sequence[Path], target: Path) -> None:
    """Write the episodes of some files into one, a row group each; a single file is linked."""
    target.parent.mkdir(parents=True, exist_ok=True)
    if len(sources) == 1:
        os.link(sources[0], target)
    else:
        with target.open("wb") as file:
            with form.data_writer(file, pq.read_schema(sources[0])) as writer:
                for source in sources:
                    _copy_row_groups(source, writer)
            file.flush()
            os.fsync(file.fileno())
    sync(target.parent)


def _copy_row_groups(source: Path, writer: pq.ParquetWriter) -> None:
    with pq.ParquetFile(source, page_checksum_verification=True) as parquet:
        for group in range(parquet.num_row_groups):
            table = parquet.read_row_group(group)
            writer.write_table(table, row_group_size=len(table))


def _check_rows(folder: Path, index: DatasetIndex) -> None:
    merged = [pq.read_metadata(path) for path in form.parquet_files(folder)]
    episodes = sum(metadata.num_row_groups for metadata in merged)
    rows = sum(metadata.num_rows for metadata in merged)
    if (episodes, rows) != (len(index.episodes), index.info["total_frames"]):
        raise damaged(folder, f"merging gave {episodes} episodes and {rows} ticks")
