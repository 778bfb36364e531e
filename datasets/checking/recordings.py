"""Episodes of a LeRobotDataset v3 as they lie in its files, damaged or not, whatever its features are called."""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from numpy import ndarray

from robomem.datasets import lerobot_format as form
from robomem.datasets.checking.finding import Effect, Finding, one_line, reason
from robomem.datasets.checking.scan import DAMAGE, NUMBERS, Segment, read_segment
from robomem.datasets.checking.survey import Survey
from robomem.datasets.checking.videos import video_file
from robomem.datasets.encoding import decode_png, vector_statistics
from robomem.datasets.lerobot_reader import read_values
from robomem.datasets.schema import Field, _lerobot_field
from robomem.datasets.video_frames import CLIP_COLUMNS, Clip, find_clip, read_clip
from robomem.episode import Episode
from robomem.errors import RobomemError

_STATISTICS_TOLERANCE = 1e-4
"""By which a recorded mean or limit may differ from that of the rows, in standard deviations: those of float32 do."""

_COLOUR_TOLERANCE = 0.05
"""By which a mean colour in [0, 1] may differ: LeRobot takes it from some of the frames, before the video codec."""


@dataclass
class Recording:
    """One episode and what is wrong with reading it."""

    index: int
    episode: Episode | None
    """Without the cameras that cannot be read; None if its rows cannot be."""
    findings: list[Finding]


def read_recording(survey: Survey, segment: Segment) -> Recording:
    """Read an episode as far as it can be."""
    found: list[Finding] = []
    try:
        table = read_segment(survey.root, segment)
        vectors = read_vectors(survey, table)
    except DAMAGE as error:
        what = f"its rows cannot be read ({one_line(error)})"
        found.append(Finding(check="damaged-rows", episode=segment.episode, file=segment.file, what=what))
        return Recording(segment.episode, None, found)
    row = survey.rows.get(segment.episode)
    found += _sizes(survey, segment, vectors)
    if found:
        return Recording(segment.episode, None, found)
    found += _not_finite(segment, vectors)
    if row and not found:
        found += _statistics(segment, vectors, row)
    if any(finding.effect is Effect.LOST for finding in found):
        return Recording(segment.episode, None, found)
    cameras = [name for name, field in fields(survey).items() if field.is_camera]
    images = dict(read_images(survey, segment, table, cameras, found))
    found += _colours(segment, images, row or {})
    return Recording(segment.episode, _episode(survey, segment, vectors, images), found)


def fields(survey: Survey) -> Mapping[str, Field]:
    """What the features of a dataset are."""
    return {name: _lerobot_field(feature) for name, feature in survey.info["features"].items()}


def read_vectors(survey: Survey, table: pa.Table) -> dict[str, ndarray]:
    """(T,) or (T, N) numbers of every column that holds some; raises one of `DAMAGE` for anything else."""
    return {name: _vector(table, name) for name, field in fields(survey).items() if field.is_vector}


def _vector(table: pa.Table, name: str) -> ndarray:
    """(T,) or (T, N) numbers of a column."""
    values = read_values(table[name])
    if values.dtype.kind not in "fiub":
        raise ValueError(f"{name} holds {values.dtype} or nothing at some ticks")
    return values if len(values) == len(table) else values.reshape(len(table), -1)


def _sizes(survey: Survey, segment: Segment, vectors: Mapping[str, ndarray]) -> Iterator[Finding]:
    for name, field in fields(survey).items():
        if name in vectors and vectors[name].size != segment.rows * field.size:
            what = f"{name} has not {field.size} numbers in every row"
            yield Finding(check="wrong-columns", episode=segment.episode, file=segment.file, what=what)


def _not_finite(segment: Segment, vectors: Mapping[str, ndarray]) -> Iterator[Finding]:
    for name, values in vectors.items():
        bad = np.asarray(~np.isfinite(values.reshape(len(values), -1)).all(axis=1))
        if bad.any():
            what = f"{name} is not finite at {bad.sum()} of {len(bad)} ticks, first at tick {int(bad.argmax())}"
            yield Finding(check="not-finite", episode=segment.episode, file=segment.file, what=what)


def _statistics(segment: Segment, vectors: Mapping[str, ndarray], row: Mapping[str, Any]) -> Iterator[Finding]:
    """Compare the rows with the statistics that were taken when they were recorded."""
    recorded = {name: _recorded(row, name) for name in vectors if name not in NUMBERS}
    recorded = {name: numbers for name, numbers in recorded.items() if numbers is not None}
    wrong = [name for name, numbers in recorded.items() if not _agree(vectors[name], numbers)]
    for name in wrong:
        other = next((o for o in wrong if o != name and _agree(vectors[o], recorded[name])), None)
        if other is None:
            what = f"the statistics of {name} in the table of episodes are not those of its rows"
            yield Finding(check="wrong-statistics", episode=segment.episode, file=form.EPISODES, what=what)
        elif name < other:
            what = f"{name} has the numbers of {other}, and {other} those of {name}"
            yield Finding(check="swapped-columns", episode=segment.episode, file=segment.file, what=what)


def _colours(segment: Segment, images: Mapping[str, ndarray], row: Mapping[str, Any]) -> Iterator[Finding]:
    """Compare the frames with the mean colours that were taken when they were recorded."""
    found = {name: frames.mean(axis=(0, 1, 2)) / 255 for name, frames in images.items()}
    recorded = {name: numbers["mean"] for name in images if (numbers := _recorded(row, name))}
    for name, mean in recorded.items():
        if mean.shape != (3,) or _near(found[name], mean):
            continue
        if any(_near(found[name], other) and _near(found[o], mean) for o, other in recorded.items() if o != name):
            check, what = "swapped-cameras", f"{name} has the colours that another camera had when it was recorded"
        elif _near(found[name][::-1], mean):
            check, what = "colour-order", f"red and blue of {name} are exchanged since it was recorded"
        else:
            check, what = "other-frames", f"the frames of {name} have other colours than when it was recorded"
        yield Finding(check=check, episode=segment.episode, what=what)


def _near(a: ndarray, b: ndarray) -> bool:
    return a.shape == b.shape and bool((np.abs(a - b) <= _COLOUR_TOLERANCE).all())


def _recorded(row: Mapping[str, Any], name: str) -> dict[str, ndarray] | None:
    numbers = {key: row.get(f"stats/{name}/{key}") for key in ("min", "max", "mean")}
    if any(value is None for value in numbers.values()):
        return None
    return {key: np.asarray(value, np.float64).reshape(-1) for key, value in numbers.items()}


def _agree(values: ndarray, recorded: Mapping[str, ndarray]) -> bool:
    found = vector_statistics(values)
    room = _STATISTICS_TOLERANCE * (found["std"] + 1e-2 * np.abs(found["mean"]) + 1e-6)
    return all(
        recorded[key].shape == found[key].shape and bool((np.abs(recorded[key] - found[key]) <= room).all())
        for key in recorded
    )


def read_images(
    survey: Survey, segment: Segment, table: pa.Table, cameras: Collection[str], found: list[Finding]
) -> Iterator[tuple[str, ndarray]]:
    """Frames of the cameras that can be read whole.

    Args:
        survey: Of the dataset.
        segment: The episode.
        table: Its rows.
        cameras: Names of features.
        found: Takes a finding for every other camera.
    """
    known = fields(survey)
    for name in cameras:
        field = known[name]
        try:
            if field.dtype == "video":
                yield name, read_clip(_clip(survey, segment, name), *field.shape[:2])
            else:
                yield name, _pngs(table[name], field)
        except _WrongFrames as error:
            what = f"{name}: {reason(error)}"
            found.append(Finding(check="wrong-frames", episode=segment.episode, file=form.EPISODES, what=what))
        except RobomemError as error:
            what = f"{name}: {reason(error)}"
            file = video_file(survey, segment.episode, name) if field.dtype == "video" else segment.file
            found.append(Finding(check="damaged-frames", episode=segment.episode, file=file, what=what))


class _WrongFrames(RobomemError):
    """The table of episodes does not tell the frames of an episode, or other ones."""


def _pngs(column: pa.ChunkedArray, field: Field) -> ndarray:
    frames = np.empty((len(column), *field.shape), np.uint8)
    for tick, value in enumerate(column):
        image = value.as_py()
        frame = decode_png(image["bytes"]) if image else None
        if frame is None or frame.shape != frames.shape[1:]:
            shape = "cannot be decoded" if frame is None else f"has shape {frame.shape}, not {field.shape}"
            raise RobomemError(f"frame {tick} {shape}")
        frames[tick] = frame
    return frames


def _clip(survey: Survey, segment: Segment, name: str) -> Clip:
    row = survey.rows.get(segment.episode, {})
    if any(row.get(f"videos/{name}/{column}") is None for column in CLIP_COLUMNS):
        raise _WrongFrames("nothing tells where its frames are in the video")
    try:
        info = {**survey.info, "fps": survey.fps}
        return find_clip(survey.root, info, {**row, "length": segment.rows}, name)
    except RobomemError as error:
        raise _WrongFrames(str(error)) from error


def _episode(
    survey: Survey, segment: Segment, vectors: Mapping[str, ndarray], images: Mapping[str, ndarray]
) -> Episode:
    ticks = segment.rows
    return Episode(
        images=images,
        proprio=_join(vectors, "observation.", ticks),
        actions=_join(vectors, "action", ticks),
        timestamps=vectors.get("capture_time", vectors.get("timestamp", np.arange(ticks))).astype(np.float64),
        reward=vectors.get("next.reward", np.zeros(ticks)).astype(np.float32),
        success=vectors.get("next.success", np.zeros(ticks)).astype(np.bool_),
        instruction=instruction(survey, segment),
        seed=segment.episode,
    )


def instruction(survey: Survey, segment: Segment) -> str:
    """Of an episode, by the table of episodes or by the tasks; empty if it is lost."""
    texts = survey.rows.get(segment.episode, {}).get("tasks")
    return texts[0] if texts and isinstance(texts[0], str) else survey.tasks.get(segment.task or 0, "")


def _join(vectors: Mapping[str, ndarray], prefix: str, ticks: int) -> ndarray:
    """(T, N) numbers of the features with this prefix."""
    parts = [values.reshape(ticks, -1) for name, values in vectors.items() if name.startswith(prefix)]
    return np.concatenate([np.zeros((ticks, 0)), *parts], axis=1).astype(np.float32)
