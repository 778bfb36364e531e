"""Whether the files of a LeRobotDataset v3 agree with each other: rows, table of episodes, tasks, info, videos."""

from collections import defaultdict
from collections.abc import Iterator
from typing import Any

from robomem.datasets import lerobot_format as form
from robomem.datasets.checking.finding import Finding
from robomem.datasets.checking.scan import Segment
from robomem.datasets.checking.survey import Survey


def check_layout(survey: Survey) -> Iterator[Finding]:
    """Compare the parts of a dataset."""
    yield from _check_segments(survey)
    yield from _check_rows(survey)
    yield from _check_tasks(survey)
    yield from _check_counts(survey)
    yield from _check_fps(survey)


def claims(survey: Survey) -> dict[int, list[Segment]]:
    """The rows that say, or by `index` must be, of an episode."""
    found: dict[int, list[Segment]] = defaultdict(list)
    for segment in survey.segments:
        found[segment.episode].append(segment)
    return found


def rows_lost(segment: Segment, row: dict[str, Any] | None) -> bool:
    """Whether an episode is without some of its rows: its table's row and its statistics count more."""
    if segment.head != 0 or not segment.ordered:
        return True
    if row is None or row["length"] == segment.rows:
        return False
    counts = [value[0] for key, value in row.items() if key.startswith("stats/") and key.endswith("/count") and value]
    span = (row.get("dataset_to_index") or 0) - (row.get("dataset_from_index") or 0)
    return segment.rows not in (*counts, span)


def _check_segments(survey: Survey) -> Iterator[Finding]:
    for episode, segments in claims(survey).items():
        for segment in segments:
            if segment.written != segment.episode:
                what = f"its rows say that they are of episode {segment.written}"
                yield Finding(check="wrong-number", episode=episode, file=segment.file, what=what)
            elif segment.ordered and not segment.numbered:
                yield Finding(
                    check="wrong-number", episode=episode, file=segment.file, what="index of its rows has gaps"
                )
        if len(segments) > 1:
            what = f"{len(segments)} separate runs of rows say that they are of it"
            yield Finding(check="wrong-rows", episode=episode, file=segments[0].file, what=what)
        elif rows_lost(segments[0], survey.rows.get(episode)):
            what = f"its {segments[0].rows} rows are not all of it, or not in order"
            yield Finding(check="wrong-rows", episode=episode, file=segments[0].file, what=what)


def _check_rows(survey: Survey) -> Iterator[Finding]:
    """Compare the table of episodes with the rows."""
    claimed = claims(survey)
    whole = not any(
        finding.file and finding.file.startswith(form.DATA) and finding.check not in ("wrong-number", "wrong-rows")
        for finding in survey.findings
    )
    for episode, row in sorted(survey.rows.items()):
        if episode not in claimed and whole:
            yield _without_rows(survey, episode, row)
        elif len(segments := claimed.get(episode, [])) == 1 and not rows_lost(segments[0], row):
            for what in _row_faults(survey, row, segments[0]):
                yield Finding(check="wrong-table", episode=episode, file=form.EPISODES, what=what)
    for episode in sorted(claimed.keys() - survey.rows.keys()):
        if survey.table_complete and not _is_uncommitted(survey, episode):
            what = "its rows are there, but it is not listed"
            yield Finding(check="wrong-table", episode=episode, file=form.EPISODES, what=what)


def _without_rows(survey: Survey, episode: int, row: dict[str, Any]) -> Finding:
    chunk, file = (row.get(f"data/{part}_index") for part in ("chunk", "file"))
    if type(chunk) is int and type(file) is int:
        named = survey.info["data_path"].format(chunk_index=chunk, file_index=file)
        if not (survey.root / named).exists():
            return Finding(check="missing-file", file=named, what=f"it is missing, and with it episode {episode}")
    return Finding(check="wrong-rows", episode=episode, file=form.DATA, what="it is listed but has no rows")


def _row_faults(survey: Survey, row: dict[str, Any], segment: Segment) -> Iterator[str]:
    if row["length"] != segment.rows:
        yield f"its length is {row['length']}, it has {segment.rows} rows"
    expected = {"dataset_from_index": segment.first, "dataset_to_index": segment.first + segment.rows}
    for key, value in expected.items():
        if segment.numbered and row.get(key, value) != value:
            yield f"{key} is {row[key]}, by its rows it is {value}"
    names = ("data/chunk_index", "data/file_index")
    if not survey.recorded and all(type(row.get(name)) is int for name in names):  # RoboMem goes by the rows
        chunk, file = (row[name] for name in names)
        if survey.info["data_path"].format(chunk_index=chunk, file_index=file) != segment.file:
            yield f"its rows are in {segment.file}, not in file {file} of chunk {chunk}"
    for name in ("seed", "success", "provenance") if survey.recorded else ():
        if row.get(name) is None:
            yield f"it has no {name}"


def _check_tasks(survey: Survey) -> Iterator[Finding]:
    if survey.is_blamed(form.TASKS):
        return
    for episode, segments in sorted(claims(survey).items()):
        row = survey.rows.get(episode)
        for segment in segments:
            if segment.task not in survey.tasks:
                what = f"its task {segment.task} has no text" if segment.task is not None else "it has several tasks"
                yield Finding(check="wrong-tasks", episode=episode, file=form.TASKS, what=what)
            elif row and row["tasks"] and survey.tasks[segment.task] not in row["tasks"]:
                what = f"its task is {survey.tasks[segment.task]!r}, in the table of episodes {row['tasks'][0]!r}"
                yield Finding(check="wrong-tasks", episode=episode, file=form.TASKS, what=what)


def _check_counts(survey: Survey) -> Iterator[Finding]:
    if survey.is_blamed(form.INFO) or not survey.table_complete:
        return
    claimed, episodes = claims(survey), survey.info["total_episodes"]
    lengths = []
    for episode in sorted(survey.rows.keys() | claimed.keys()):
        segments, row = claimed.get(episode, []), survey.rows.get(episode)
        trusted = row is None or (len(segments) == 1 and not rows_lost(segments[0], row))
        lengths.append(segments[0].rows if trusted or row is None else row["length"])
    if _leaves_uncommitted(survey):
        extra = len(lengths) - episodes
        what = f"a recording was interrupted: {extra} episodes are not counted in"
        yield Finding(check="uncommitted", file=form.INFO, what=what)
        lengths = lengths[:episodes]
    found = {"total_episodes": len(lengths), "total_frames": sum(lengths)}
    if not survey.is_blamed(form.TASKS) and "total_tasks" in survey.info:
        found["total_tasks"] = len(survey.tasks)
    for key, value in found.items():
        if survey.info[key] != value:
            yield Finding(check="wrong-counts", file=form.INFO, what=f"{key} is {survey.info[key]}, there are {value}")


def _leaves_uncommitted(survey: Survey) -> bool:
    """Whether what lies beyond the counts is what a killed writer of RoboMem leaves."""
    episodes, frames = survey.info["total_episodes"], survey.info["total_frames"]
    rows = [survey.rows[episode]["length"] for episode in sorted(survey.rows)[:episodes]]
    listed, present = len(survey.rows), len(claims(survey))
    return survey.recorded and max(listed, present) > episodes and listed >= episodes and sum(rows) == frames


def _is_uncommitted(survey: Survey, episode: int) -> bool:
    return not survey.is_blamed(form.INFO) and _leaves_uncommitted(survey) and episode >= survey.info["total_episodes"]


def _check_fps(survey: Survey) -> Iterator[Finding]:
    told = survey.info["fps"]
    if survey.fps != told:
        yield Finding(check="wrong-fps", file=form.INFO, what=f"fps is {told}, the timestamps are of {survey.fps:.4g}")
    elif survey.embodiment and told != survey.embodiment.fps:
        what = f"fps is {told}, but this has {survey.embodiment.action_dt} s between actions"
        yield Finding(check="wrong-rate", file=form.ROBOMEM, what=what)
