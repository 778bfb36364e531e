"""Copies chosen episodes of a surveyed dataset into a new one, without encoding anything again.

Rows are copied as Arrow tables, compressed images among them, and video files as they are, damaged episodes within
them included. What other files should have told is taken from the table of episodes or made from the rows.
"""

import shutil
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from robomem.datasets import lerobot_format as form
from robomem.datasets.checking.layout import claims
from robomem.datasets.checking.recordings import fields, instruction, read_images, read_vectors
from robomem.datasets.checking.scan import Segment, read_segment
from robomem.datasets.checking.survey import Survey
from robomem.datasets.checking.table import join_rows, join_statistics, lacks_image_statistics, statistics_columns
from robomem.datasets.checking.videos import video_file
from robomem.files import write_atomic, write_json

_RENUMBERED = ("frame_index", "episode_index", "index", "task_index")


class EpisodeCopy:
    """Writes a dataset into an empty folder."""

    def __init__(self, survey: Survey, folder: Path, episodes: Sequence[int]) -> None:
        """Number the instructions.

        Args:
            survey: Of the original.
            folder: For the new dataset.
            episodes: To be copied, in this order; each has its rows.
        """
        self._survey, self._folder = survey, folder
        claimed = claims(survey)
        self._segments = [claimed[episode][0] for episode in episodes]
        self._texts = [instruction(survey, segment) for segment in self._segments]
        self._tasks = list(dict.fromkeys(self._texts))
        self._videos: dict[str, dict[str, int]] = {
            feature: {} for feature in form.video_features(survey.info["features"])
        }
        self._rows: list[dict[str, Any]] = []
        self._ticks = 0

    def write(self, report: Callable[[int], None]) -> None:
        """Write all files; `report` is told the number of episodes that are done."""
        file = 0
        while len(self._rows) < len(self._segments):
            path = form.parquet_path(self._folder / form.DATA, file)
            path.parent.mkdir(parents=True, exist_ok=True)
            with path.open("wb") as target, form.data_writer(target, self._survey.schema) as writer:
                while len(self._rows) < len(self._segments) and target.tell() < form.FILE_MB * 10**6:
                    table = self._next_rows(file)
                    writer.write_table(table, row_group_size=len(table))
                    report(len(self._rows))
            file += 1
        self._copy_videos()
        self._write_meta()

    def _next_rows(self, file: int) -> pa.Table:
        """The rows of the next episode, with new numbers; notes its row of the table of episodes."""
        survey, number = self._survey, len(self._rows)
        segment, text = self._segments[number], self._texts[number]
        task = self._tasks.index(text)
        automatic = form.automatic_columns(segment.rows, max(round(survey.fps), 1), number, self._ticks, task)
        table = read_segment(survey.root, segment)
        for name in set(_RENUMBERED) & set(table.column_names):
            column = table.schema.field(name)
            values = pa.array(automatic[name]).cast(column.type)
            table = table.set_column(table.schema.get_field_index(name), column, values)
        row = _known_columns(survey.rows.get(segment.episode, {}), survey.info["features"])
        row |= {"episode_index": number, "tasks": [text]}
        row |= {"length": segment.rows, "dataset_from_index": self._ticks}
        row["dataset_to_index"] = self._ticks = self._ticks + segment.rows
        row |= form.place("data", file) | form.place(form.EPISODES, 0)
        row |= self._video_places(segment.episode) | self._own_columns(segment, table)
        missing = lacks_image_statistics(row, fields(survey))
        images = dict(read_images(survey, segment, table, missing, [])) if missing else {}
        self._rows.append(row | statistics_columns(read_vectors(survey, table), images))
        return table

    def _own_columns(self, segment: Segment, table: pa.Table) -> dict[str, Any]:
        """What RoboMem notes of an episode; a seed that is lost becomes its index, as of one that never had any."""
        if self._survey.embodiment is None:
            return {}
        row, success = self._survey.rows.get(segment.episode, {}), table["next.success"].to_numpy()
        defaults = {"seed": segment.episode, "success": bool(np.any(success)), "provenance": "{}"}
        return {name: default if row.get(name) is None else row[name] for name, default in defaults.items()}

    def _video_places(self, episode: int) -> dict[str, Any]:
        """Where the videos of an episode will be: files are numbered anew, without gaps."""
        places: dict[str, Any] = {}
        for feature, numbers in self._videos.items():
            file = video_file(self._survey, episode, feature)
            if file is not None:
                places |= form.place(f"{form.VIDEOS}/{feature}", numbers.setdefault(file, len(numbers)))
        return places

    def _copy_videos(self) -> None:
        for feature, numbers in self._videos.items():
            for file, number in numbers.items():
                target = form.video_path(self._folder, feature, number)
                target.parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(self._survey.root / file, target)

    def _write_meta(self) -> None:
        survey, episodes = self._survey, len(self._rows)
        info: Mapping[str, Any] = survey.info | {
            "fps": survey.fps,
            "total_episodes": episodes,
            "total_frames": self._ticks,
            "total_tasks": len(self._tasks),
            "splits": {"train": f"0:{episodes}"},
            "data_path": form.DATA_PATH,
            "video_path": form.VIDEO_PATH if self._videos else None,
        }
        table = join_rows(self._rows, survey.row_schema)
        write_atomic(form.parquet_path(self._folder / form.EPISODES, 0), form.table_bytes(table))
        write_atomic(self._folder / form.TASKS, form.tasks_bytes(self._tasks))
        write_json(self._folder / form.STATISTICS, join_statistics(self._rows, list(info["features"])))
        if survey.embodiment is not None:
            shutil.copyfile(survey.root / form.ROBOMEM, self._folder / form.ROBOMEM)
        write_json(self._folder / form.INFO, info)


def _known_columns(row: Mapping[str, Any], features: Collection[str]) -> dict[str, Any]:
    """A row without the statistics of what is no feature."""
    return {
        name: value for name, value in row.items() if not name.startswith("stats/") or name.split("/")[1] in features
    }
