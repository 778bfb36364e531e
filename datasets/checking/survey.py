"""What is left of a LeRobotDataset v3, file by file: nothing here trusts that one file agrees with another."""

import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from robomem.datasets import lerobot_format as form
from robomem.datasets.checking.finding import Finding
from robomem.datasets.checking.info import fault, read_document, read_embodiment, rebuild_info, unlike
from robomem.datasets.checking.scan import ScannedFile, Segment, read_table, scan_file
from robomem.datasets.encoding import image_feature
from robomem.errors import RobomemError
from robomem.spec import EmbodimentSpec

_NUMBERED = re.compile(r"file-(\d+)\.parquet")

_FPS_TOLERANCE = 0.01
"""By which fps may differ from that of the timestamps: the float32 of hours is not more exact."""


@dataclass
class Survey:
    """The parts of a dataset that can be read, and a finding for each that cannot."""

    root: Path
    findings: list[Finding] = field(default_factory=list)
    files: list[ScannedFile] = field(default_factory=list)
    """Data files with the columns of the dataset."""
    info: dict[str, Any] = field(default_factory=dict)
    """`meta/info.json`, or one made from the data."""
    rows: dict[int, dict[str, Any]] = field(default_factory=dict)
    """The table of episodes, by `episode_index`."""
    row_schema: pa.Schema | None = None
    """Its columns, if any of its files can be read."""
    table_complete: bool = True
    """Whether all files of the table of episodes can be read."""
    tasks: dict[int, str] = field(default_factory=dict)
    """Instructions by `task_index`."""
    recorded: bool = False
    """Whether RoboMem wrote it."""
    embodiment: EmbodimentSpec | None = None
    """The robot, where RoboMem wrote it."""

    @property
    def segments(self) -> list[Segment]:
        """The rows of every episode, in order of the files."""
        return [segment for scanned in self.files for segment in scanned.segments]

    @property
    def fps(self) -> float:
        """Ticks per second: that of the timestamps where the info has another."""
        measured, told = self.measured_fps, self.info["fps"]
        return told if measured is None or abs(told / measured - 1) <= _FPS_TOLERANCE else measured

    @property
    def measured_fps(self) -> float | None:
        """Ticks per second of the timestamps; a whole number where it is nearly one."""
        periods = [segment.period for segment in self.segments if segment.period > 0]
        if not periods:
            return None
        fps = 1 / float(np.median(periods))
        return round(fps) if round(fps) and abs(fps / round(fps) - 1) <= _FPS_TOLERANCE else fps

    @property
    def schema(self) -> pa.Schema:
        """Columns of the data files."""
        return self.files[0].schema if self.files else pa.schema([])

    def add(self, finding: Finding) -> None:
        """Note a finding."""
        self.findings.append(finding)

    def is_blamed(self, file: str) -> bool:
        """Whether a finding names this file."""
        return any(finding.file == file for finding in self.findings)


def take_survey(root: Path) -> Survey:
    """Read every file of a dataset but its videos.

    Raises:
        RobomemError: it is a LeRobotDataset of an older version.
    """
    survey = Survey(root)
    if (root / "meta/episodes.jsonl").exists():
        raise RobomemError(f"{root} is a LeRobotDataset v2; convert a copy of it to v3 with LeRobot's own converter")
    scanned = list(_scan(survey))
    _read_episodes(survey)
    _read_robot(survey)
    _read_tasks(survey)
    scanned = [file for file in scanned if not _lacks_senses(survey, file)]
    _read_info(survey, scanned)
    _choose_files(survey, scanned)
    for file in survey.files:
        survey.findings += file.findings
    assign(survey)
    return survey


def _read_robot(survey: Survey) -> None:
    columns = survey.row_schema.names if survey.row_schema else []
    survey.recorded = (survey.root / form.ROBOMEM).exists() or "provenance" in columns
    if survey.recorded:
        found = read_embodiment(survey.root)
        if isinstance(found, Finding):
            survey.add(replace(found, check="no-robot"))
        else:
            survey.embodiment = found


def _scan(survey: Survey) -> Iterable[ScannedFile]:
    paths = form.parquet_files(survey.root / form.DATA)
    _miss_numbers(survey, form.DATA, paths)
    for path in paths:
        found = scan_file(path, _relative(survey, path))
        if isinstance(found, Finding):
            survey.add(found)
        else:
            yield found


def _relative(survey: Survey, path: Path) -> str:
    return path.relative_to(survey.root).as_posix()


def _miss_numbers(survey: Survey, folder: str, paths: list[Path]) -> None:
    """Name the files that are missing from a folder: they are numbered without gaps."""
    if not paths:
        survey.add(Finding(check="missing-file", file=folder, what="there is no parquet file in it"))
        return
    for parent in sorted({path.parent for path in paths}):
        numbers = [int(match[1]) for path in parent.iterdir() if (match := _NUMBERED.fullmatch(path.name))]
        for number in sorted(set(range(max(numbers, default=0))) - set(numbers)):
            file = _relative(survey, parent / f"file-{number:03d}.parquet")
            survey.add(Finding(check="missing-file", file=file, what="it is missing"))


def _read_episodes(survey: Survey) -> None:
    paths = form.parquet_files(survey.root / form.EPISODES)
    before = len(survey.findings)
    _miss_numbers(survey, form.EPISODES, paths)
    survey.table_complete = len(survey.findings) == before
    for path in paths:
        file = _relative(survey, path)
        table = read_table(path, file)
        if isinstance(table, Finding):
            survey.add(table)
            survey.table_complete = False
            continue
        if missing := {"episode_index", "length", "tasks"} - set(table.column_names):
            survey.add(Finding(check="damaged-file", file=file, what=f"it has no column {min(missing)}"))
            survey.table_complete = False
            continue
        if survey.row_schema is not None and survey.row_schema != table.schema:
            survey.add(Finding(check="wrong-table", file=file, what="its columns are not those of the other files"))
        survey.row_schema = survey.row_schema or table.schema
        for row in table.to_pylist():
            episode = row["episode_index"]
            if type(episode) is not int or episode < 0 or episode in survey.rows:
                what = f"it lists an episode {episode}" + (" twice" if episode in survey.rows else "")
                survey.add(Finding(check="wrong-table", file=file, episode=episode, what=what))
            else:
                survey.rows[episode] = row


def _read_tasks(survey: Survey) -> None:
    table = read_table(survey.root / form.TASKS, form.TASKS)
    if isinstance(table, Finding):
        survey.add(table)
        return
    texts = [name for name in table.column_names if name != "task_index"]
    if len(texts) != 1 or "task_index" not in table.column_names:
        survey.add(
            Finding(check="wrong-tasks", file=form.TASKS, what=f"it has the columns {', '.join(table.column_names)}")
        )
        return
    numbers = table["task_index"].to_pylist()
    survey.tasks = dict(zip(numbers, table[texts[0]].to_pylist(), strict=True))
    if len(survey.tasks) != len(numbers) or not all(isinstance(text, str) for text in survey.tasks.values()):
        survey.add(Finding(check="wrong-tasks", file=form.TASKS, what="a number or a text occurs twice or is missing"))


def _lacks_senses(survey: Survey, scanned: ScannedFile) -> bool:
    """Whether a file has no column of what the robot perceived or did, which nothing brings back; if so it is named."""
    if survey.embodiment is None:
        return False
    cameras = [image_feature(camera.name) for camera in survey.embodiment.cameras]
    images = [name for name in cameras if not (survey.root / form.VIDEOS / name).exists()]
    missing = [name for name in ("observation.state", "action", *images) if name not in scanned.schema.names]
    if missing:
        survey.add(Finding(check="lost-columns", file=scanned.file, what=f"there is no column {missing[0]}"))
    return bool(missing)


def _read_info(survey: Survey, scanned: list[ScannedFile]) -> None:
    """Take the info if it makes sense and fits at least one data file, otherwise one made from the files."""
    info = read_document(survey.root, form.INFO)
    if isinstance(info, dict):
        why = fault(info)
        if why is None and scanned:
            reasons = [unlike(info["features"], file.schema) for file in scanned]
            why = reasons[0] if all(reasons) else None
        if why is None and survey.embodiment:
            why = _unlike_robot(info, survey.embodiment)
        if why is None:
            survey.info = info
            return
        info = Finding(check="wrong-info", file=form.INFO, what=why)
    survey.add(info)
    survey.files = scanned
    fps = survey.measured_fps or (1 / survey.embodiment.action_dt if survey.embodiment else 1)
    survey.info = rebuild_info(survey.root, scanned, survey.embodiment, fps)


def _unlike_robot(info: dict[str, Any], embodiment: EmbodimentSpec) -> str | None:
    """How the features differ from those of the robot, if they do."""
    for name, vector in (("observation.state", embodiment.proprio), ("action", embodiment.action)):
        if info["features"].get(name, {}).get("names") != list(vector.names):
            return f"the names of {name} are not those in {form.ROBOMEM}"
    for camera in embodiment.cameras:
        feature = info["features"].get(f"observation.images.{camera.name}", {})
        if feature.get("shape") != [camera.height, camera.width, 3]:
            return f"the shape of the camera {camera.name} is not that in {form.ROBOMEM}"
    return None


def _choose_files(survey: Survey, scanned: list[ScannedFile]) -> None:
    """Keep the files with the columns that the info tells, and exactly the same ones."""
    fitting = [file for file in scanned if unlike(survey.info["features"], file.schema) is None]
    common = max((file.schema for file in fitting), key=lambda s: sum(s == f.schema for f in fitting), default=None)
    survey.files = []
    for file in scanned:
        why = unlike(survey.info["features"], file.schema)
        if why is None and file.schema != common:
            why = "its columns are not those of the other files"
        if why:
            survey.add(Finding(check="wrong-columns", file=file.file, what=why))
        else:
            survey.files.append(file)


def assign(survey: Survey) -> None:
    """Give every segment its episode: two with one number are told apart by `index`, which the table knows too."""
    places = {row.get("dataset_from_index"): (episode, row["length"]) for episode, row in survey.rows.items()}
    claimed = Counter(segment.written for segment in survey.segments)
    for segment in survey.segments:
        episode, length = places.get(segment.first, (None, None))
        doubtful = claimed[segment.written] > 1 or (survey.table_complete and segment.written not in survey.rows)
        if doubtful and episode is not None and episode != segment.written and length == segment.rows:
            segment.episode = episode
