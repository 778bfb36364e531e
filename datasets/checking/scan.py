"""Which rows of which parquet file are whose: found from the rows themselves, so that it outlives every other file."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from robomem.datasets.checking.finding import Finding, one_line

DAMAGE = (pa.ArrowException, OSError, ValueError, TypeError, KeyError, AttributeError, IndexError, OverflowError)
"""What libraries raise on damaged files."""
_MAGIC = b"PAR1"
NUMBERS = ("episode_index", "frame_index", "index", "task_index", "timestamp")
"""Columns that LeRobot adds by itself."""


@dataclass(kw_only=True)
class Segment:
    """Consecutive rows of one episode in a data file."""

    file: str
    """Path below the dataset's folder."""
    groups: list[int]
    """Row groups that hold them."""
    start: int
    """First row, counted from that of the first group."""
    rows: int
    written: int
    """Index of the episode by the rows themselves."""
    episode: int
    """Index of the episode, all things considered."""
    first: int
    """`index` of the first row."""
    head: int
    """`frame_index` of the first row."""
    ordered: bool
    """Whether `frame_index` counts up by one."""
    numbered: bool
    """Whether `index` counts up by one."""
    task: int | None
    """`task_index`, if it is one and the same."""
    period: float
    """Median step of `timestamp` in seconds; 0 without one."""


@dataclass
class ScannedFile:
    """What a data file has, as far as it can be read."""

    file: str
    schema: pa.Schema
    segments: list[Segment]
    findings: list[Finding]


def open_metadata(path: Path, file: str) -> pq.FileMetaData | Finding:
    """The footer of a parquet file, or why there is none."""
    try:
        return pq.read_metadata(path)
    except DAMAGE as error:
        if not path.is_file():
            return Finding(check="missing-file", file=file, what="it is missing")
        if path.read_bytes()[-4:] != _MAGIC:
            return Finding(
                check="unfinished-file", file=file, what=f"it has no footer ({path.stat().st_size} bytes): cut off"
            )
        return Finding(check="damaged-file", file=file, what=f"its footer is damaged ({one_line(error)})")


def read_table(path: Path, file: str) -> pa.Table | Finding:
    """All rows of a small parquet file, or why there are none."""
    metadata = open_metadata(path, file)
    if isinstance(metadata, Finding):
        return metadata
    try:
        with pq.ParquetFile(path, page_checksum_verification=True) as parquet:
            return parquet.read()
    except DAMAGE as error:
        return Finding(check="damaged-file", file=file, what=f"it cannot be read ({one_line(error)})")


def scan_file(path: Path, file: str) -> ScannedFile | Finding:
    """Find the episodes of a data file by its columns of numbers."""
    metadata = open_metadata(path, file)
    if isinstance(metadata, Finding):
        return metadata
    try:
        with pq.ParquetFile(path, metadata=metadata, page_checksum_verification=True) as parquet:
            scanned = ScannedFile(file, parquet.schema_arrow, [], [])
            if missing := [name for name in NUMBERS[:2] if name not in scanned.schema.names]:
                return Finding(check="wrong-columns", file=file, what=f"it has no column {missing[0]}")
            for group in range(metadata.num_row_groups):
                _scan_group(parquet, group, scanned)
    except DAMAGE as error:
        return Finding(check="damaged-file", file=file, what=f"it cannot be opened ({one_line(error)})")
    return scanned


def _scan_group(parquet: pq.ParquetFile, group: int, scanned: ScannedFile) -> None:
    names = [name for name in NUMBERS if name in scanned.schema.names]
    try:
        table = parquet.read_row_group(group, names)
        numbers = {name: table[name].to_numpy() for name in names}
        for segment in _runs(scanned.file, group, numbers):
            last = scanned.segments[-1] if scanned.segments else None
            if last and segment.start == 0 and segment.written == last.written and segment.head == last.rows:
                last.groups.append(group)
                last.rows += segment.rows
                last.ordered &= segment.ordered
                last.numbered &= segment.numbered
            else:
                scanned.segments.append(segment)
    except DAMAGE as error:
        what = f"row group {group} cannot be read ({one_line(error)})"
        scanned.findings.append(
            Finding(
                check="damaged-rows", episode=_recorded_episode(parquet.metadata, group), file=scanned.file, what=what
            )
        )


def _runs(file: str, group: int, numbers: dict[str, np.ndarray]) -> Iterator[Segment]:
    """Consecutive rows of a row group with the same episode, and with ticks that do not start anew."""
    episodes, frames = numbers["episode_index"], numbers["frame_index"]
    if not len(episodes):
        return
    starts = (frames[1:] == 0) & (frames[:-1] > 0) & (frames[0] == 0)
    cuts = np.flatnonzero((np.diff(episodes) != 0) | starts) + 1
    for start, stop in zip((0, *cuts), (*cuts, len(episodes)), strict=True):
        part = {name: values[start:stop] for name, values in numbers.items()}
        index, tasks = part.get("index", np.arange(start, stop)), np.unique(part.get("task_index", ()))
        steps = np.diff(part.get("timestamp", np.zeros(1)).astype(np.float64))
        yield Segment(
            file=file,
            groups=[group],
            start=int(start),
            rows=int(stop - start),
            written=int(episodes[start]),
            episode=int(episodes[start]),
            first=int(index[0]),
            head=int(frames[start]),
            ordered=bool((np.diff(frames[start:stop]) == 1).all()),
            numbered=bool((np.diff(index) == 1).all()),
            task=int(tasks[0]) if len(tasks) == 1 else None,
            period=float(np.median(steps)) if len(steps) else 0.0,
        )


def _recorded_episode(metadata: pq.FileMetaData, group: int) -> int | None:
    """The only episode of a row group by the footer, if it tells."""
    columns = metadata.row_group(group)
    for number in range(columns.num_columns):
        column = columns.column(number)
        if column.path_in_schema == "episode_index" and column.is_stats_set and column.statistics.has_min_max:
            low, high = column.statistics.min, column.statistics.max
            return int(low) if low == high else None
    return None


def read_segment(root: Path, segment: Segment) -> pa.Table:
    """All columns of an episode's rows; raises one of `DAMAGE` if they cannot be read."""
    with pq.ParquetFile(root / segment.file, page_checksum_verification=True) as parquet:
        rows = parquet.read_row_groups(segment.groups).slice(segment.start, segment.rows)
        rows.validate(full=True)
        return rows
