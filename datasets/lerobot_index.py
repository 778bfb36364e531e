"""What a dataset on disk holds up to its commit point, `meta/info.json`: shared by the reader and the writer."""

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from robomem.datasets import lerobot_format as form
from robomem.errors import RobomemError
from robomem.spec import EmbodimentSpec

_JOINED = 64
"""Tables of episodes in memory at most while they are read."""


@dataclass(frozen=True)
class DataFile:
    """A parquet file of whole episodes, one row group each."""

    path: Path
    metadata: pq.FileMetaData


@dataclass(frozen=True)
class DatasetIndex:
    """The committed content; anything beyond it is the rest of an interrupted write and is not listed."""

    root: Path
    embodiment: EmbodimentSpec
    provenance: dict[str, Any]
    info: dict[str, Any]
    files: tuple[DataFile, ...]
    """Data files in order."""
    episode_files: tuple[Path, ...]
    """Files of the episodes' table in order."""
    episodes: pa.Table
    """One row per episode."""

    @property
    def places(self) -> list[tuple[int, int]]:
        """Data file and row group of each episode."""
        return [(n, group) for n, file in enumerate(self.files) for group in range(file.metadata.num_row_groups)]


def is_dataset(root: Path) -> bool:
    """Whether a dataset of RoboMem was begun in this folder."""
    return (root / form.ROBOMEM).is_file() and (root / form.INFO).is_file()


def load_index(root: Path) -> DatasetIndex:
    """Read and verify the committed content of a dataset.

    Raises:
        RobomemError: the folder is missing or no dataset, or a file is missing, damaged or disagrees with the others.
    """
    if not root.is_dir():
        raise RobomemError(f"there is no dataset at {root}; give another folder or collect one with `robomem collect`")
    if not is_dataset(root):
        missing = form.ROBOMEM if not (root / form.ROBOMEM).is_file() else form.INFO
        raise RobomemError(f"{root} is not a dataset of RoboMem: {missing} is missing; give another folder")
    info = read_keys(root / form.INFO, "total_episodes", "total_frames", "fps", "features")
    own = read_keys(root / form.ROBOMEM, "embodiment", "provenance")
    total = info["total_episodes"]
    files = _committed_data(root, total)
    episode_files, episodes = _committed_episodes(root, total)
    with reading(root / form.ROBOMEM):
        embodiment = EmbodimentSpec.from_dict(own["embodiment"])
    index = DatasetIndex(root, embodiment, own["provenance"], info, files, episode_files, episodes)
    _check_lengths(index)
    return index


def episode_statistics(episodes: pa.Table) -> list[dict[str, dict[str, np.ndarray]]]:
    """Statistics of each episode, by feature, as its row tells them."""
    parts: list[dict[str, dict[str, np.ndarray]]] = [{} for _ in range(len(episodes))]
    for column in episodes.column_names:
        if column.startswith("stats/"):
            _, feature, name = column.split("/")
            for part, value in zip(parts, episodes[column].to_pylist(), strict=True):
                part.setdefault(feature, {})[name] = np.array(value)
    return parts


def damaged(path: Path, why: object) -> RobomemError:
    """The error for a file that cannot be read."""
    reason = " ".join(str(why).split())[:200]
    return RobomemError(f"{path} is damaged ({reason}); restore it from a copy or collect the dataset anew")


@contextmanager
def reading(path: Path) -> Iterator[None]:
    """Name the file in an error raised while reading it."""
    try:
        yield
    except FileNotFoundError as error:
        raise RobomemError(f"{path} is missing; restore it from a copy or collect the dataset anew") from error
    except (pa.ArrowException, AttributeError, KeyError, OSError, TypeError, ValueError) as error:
        raise damaged(path, error) from error


def read_parquet(path: Path) -> pa.Table:
    """All rows of a file, and nothing inferred from its path (as `pq.read_table` does)."""
    with pq.ParquetFile(path, page_checksum_verification=True) as parquet:
        return parquet.read()


def read_groups(path: Path, metadata: pq.FileMetaData, groups: Sequence[int], columns: Sequence[str]) -> pa.Table:
    """Some columns of some row groups of a file.

    Raises:
        RobomemError: the file is missing or damaged, or has no such column, which parquet itself passes over.
    """
    with reading(path), pq.ParquetFile(path, metadata=metadata, page_checksum_verification=True) as parquet:
        table = parquet.read_row_groups(groups, columns)
        if missing := [name for name in columns if name not in table.column_names]:
            raise ValueError(f"it has no column {missing[0]}")
    return table


def read_keys(path: Path, *keys: str) -> dict[str, Any]:
    """The mapping in a JSON file, which has some keys at least.

    Raises:
        RobomemError: the file is missing or damaged, or lacks a key.
    """
    with reading(path):
        value = json.loads(path.read_text())
    if missing := [key for key in keys if not isinstance(value, dict) or key not in value]:
        raise damaged(path, f"it has no {missing[0]!r}")
    return value


def _committed_data(root: Path, total: int) -> tuple[DataFile, ...]:
    files, found = [], 0
    for path in form.parquet_files(root / form.DATA):
        if found == total:
            break
        with reading(path):
            files.append(DataFile(path, pq.read_metadata(path)))
        found += files[-1].metadata.num_row_groups
    _check_total(root / form.DATA, found, total)
    return tuple(files)


def _committed_episodes(root: Path, total: int) -> tuple[tuple[Path, ...], pa.Table]:
    files, tables, found = [], [], 0
    for path in form.parquet_files(root / form.EPISODES):
        if found == total:
            break
        with reading(path):
            tables.append(read_parquet(path))
            found += len(tables[-1])
            files.append(path)
            if len(tables) == _JOINED:
                tables = [_join(tables)]
    _check_total(root / form.EPISODES, found, total)
    with reading(root / form.EPISODES):
        return tuple(files), _join(tables)


def _join(tables: Sequence[pa.Table]) -> pa.Table:
    """Their rows in one piece: every piece of every column costs kilobytes, however short it is."""
    return pa.concat_tables(tables).combine_chunks() if tables else pa.table({})


def _check_total(folder: Path, found: int, total: int) -> None:
    if found != total:
        raise damaged(folder, f"it holds {found} episodes, {form.INFO} counts {total}")


def _check_lengths(index: DatasetIndex) -> None:
    lengths = index.episodes["length"].to_pylist() if len(index.episodes) else []
    for (file, group), length in zip(index.places, lengths, strict=True):
        rows = index.files[file].metadata.row_group(group).num_rows
        if rows != length:
            raise damaged(index.files[file].path, f"row group {group} has {rows} rows, its episode has {length} ticks")
