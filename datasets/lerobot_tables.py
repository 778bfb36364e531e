"""Tables of any LeRobotDataset v3: its episodes, its instructions, and the rows of an episode."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy import ndarray

from robomem.datasets import lerobot_format as form
from robomem.datasets.lerobot_index import damaged, read_groups, reading
from robomem.datasets.video_frames import CLIP_COLUMNS
from robomem.files import read_json

_EPISODE_COLUMNS = ("episode_index", "length", "data/chunk_index", "data/file_index", "dataset_from_index")


@dataclass(frozen=True)
class _DataFile:
    metadata: pq.FileMetaData
    starts: ndarray
    """First row of each row group, and the number of all rows."""


class LeRobotTables:
    """What lies in parquet files; rows of an episode may share a row group with those of others."""

    def __init__(self, root: Path, videos: Sequence[str]) -> None:
        """Read the tables of episodes and instructions.

        Args:
            root: Folder of the dataset.
            videos: Features whose place in video files is wanted.

        Raises:
            RobomemError: a file is missing or damaged, or an episode is not listed.
        """
        self.root = root
        self.info: dict[str, Any] = read_json(root / form.INFO)
        """`meta/info.json`."""
        columns = [*_EPISODE_COLUMNS, *(f"videos/{video}/{column}" for video in videos for column in CLIP_COLUMNS)]
        self.episodes: list[dict[str, Any]] = _episodes(root, columns, self.info["total_episodes"])
        """By index: `length`, and where the rows and the frames are."""
        self.tasks: dict[int, str] = read_tasks(root)
        """Instructions by `task_index`."""
        self._first_rows: dict[tuple[int, int], int] = {}
        for row in self.episodes:
            self._first_rows.setdefault((row["data/chunk_index"], row["data/file_index"]), row["dataset_from_index"])
        self._files: dict[Path, _DataFile] = {}

    def read_rows(self, index: int, columns: Sequence[str]) -> tuple[pa.Table, Path]:
        """Columns of an episode's rows in order, and the file that they lie in.

        Raises:
            RobomemError: the file is missing or damaged, or has other rows in the place of the episode's.
        """
        row = self.episodes[index]
        chunk, file = row["data/chunk_index"], row["data/file_index"]
        first = row["dataset_from_index"] - self._first_rows[chunk, file]
        stop = first + row["length"]
        with reading(self.root / form.INFO):
            path = self.root / self.info["data_path"].format(chunk_index=chunk, file_index=file)
        with reading(path):
            known = self._files.get(path) or self._files.setdefault(path, _open(path))
            if stop > known.starts[-1]:
                raise ValueError(f"it has {known.starts[-1]} rows, episode {index} ends at row {stop}")
            low = int(np.searchsorted(known.starts, first, side="right")) - 1
            high = int(np.searchsorted(known.starts, stop, side="left"))
            names = list(dict.fromkeys(["episode_index", "frame_index", *columns]))
            rows = read_groups(path, known.metadata, range(low, high), names)
            rows = rows.slice(first - known.starts[low], stop - first)
        if set(rows["episode_index"].to_pylist()) != {index}:
            raise damaged(path, f"rows {first} to {stop - 1} are not those of episode {index}")
        if rows["frame_index"].to_pylist() != list(range(len(rows))):
            raise damaged(path, f"the ticks of episode {index} are not in order")
        return rows, path


def _open(path: Path) -> _DataFile:
    metadata = pq.read_metadata(path)
    counts = [metadata.row_group(group).num_rows for group in range(metadata.num_row_groups)]
    return _DataFile(metadata, np.cumsum([0, *counts]))


def _episodes(root: Path, columns: Sequence[str], total: int) -> list[dict[str, Any]]:
    folder, rows = root / form.EPISODES, []
    for path in form.parquet_files(folder):
        with reading(path), pq.ParquetFile(path) as parquet:
            if missing := sorted(set(columns) - set(parquet.schema_arrow.names)):
                raise ValueError(f"it has no column {missing[0]}")
            rows += parquet.read(columns).to_pylist()
    rows.sort(key=lambda row: row["episode_index"])
    if [row["episode_index"] for row in rows] != list(range(total)):
        raise damaged(folder, f"it lists {len(rows)} episodes, {form.INFO} counts {total}")
    return rows


def read_tasks(root: Path) -> dict[int, str]:
    """Instructions by `task_index`.

    LeRobot writes the texts as the index of a pandas table, which has no name in some versions.

    Raises:
        RobomemError: the file is missing or damaged.
    """
    path = root / form.TASKS
    with reading(path), pq.ParquetFile(path) as parquet:
        table = parquet.read()
        texts = next(name for name in table.column_names if name != "task_index")
        return dict(zip(table["task_index"].to_pylist(), table[texts].to_pylist(), strict=True))
