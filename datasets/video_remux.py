"""Joins and cuts the videos of a dataset of RoboMem without encoding anything again.

In these, every episode begins with a keyframe and no frame is reordered, so packets can be moved as they are.
"""

import io
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from itertools import groupby, islice
from pathlib import Path
from typing import Any

import av
import pyarrow as pa
from av.error import FFmpegError

from robomem.datasets import lerobot_format as form
from robomem.datasets.lerobot_index import DatasetIndex, damaged
from robomem.datasets.video_frames import Clip, named_videos, next_video
from robomem.files import sync


def merge_videos(index: DatasetIndex, aside: Path, file_bytes: int) -> pa.Table:
    """Join consecutive small videos of each camera into files with new numbers; the old ones stay.

    Args:
        index: The dataset; nobody else may write it.
        aside: Folder on the same file system for files that are not complete.
        file_bytes: Most bytes of a file.

    Returns:
        The episodes' table, which tells the new places.

    Raises:
        RobomemError: a video is missing or damaged.
    """
    table, free, fps = index.episodes, next_video(index.info, index.episodes), index.info["fps"]
    for feature, numbers in named_videos(index.info, index.episodes).items():
        groups = _groups([form.video_path(index.root, feature, number) for number, _ in groupby(numbers)], file_bytes)
        moved: dict[Path, tuple[int, int]] = {}
        for new, group in enumerate((group for group in groups if len(group) > 1), start=free):
            firsts = _join(group, aside / "joined.mp4", fps)
            _put(aside / "joined.mp4", form.video_path(index.root, feature, new))
            moved |= {path: (new, first) for path, first in zip(group, firsts, strict=True)}
        table = _move_clips(index, table, feature, moved) if moved else table
    return table


def cut_clip(clip: Clip) -> bytes:
    """An mp4 file of the frames of one episode alone.

    Raises:
        RobomemError: the file is missing or damaged, or lacks frames of the episode.
    """
    file = io.BytesIO()
    with _opened(clip.path) as source:
        count = _cut(source, clip, file)
    if count < clip.count:
        raise damaged(clip.path, f"it has {count} frames for the {clip.count} ticks of episode {clip.episode}")
    return file.getvalue()


def _cut(source: Any, clip: Clip, file: io.BytesIO) -> int:
    """Write a clip of an open video into a file; returns the number of its frames."""
    original = source.streams.video[0]
    first = round(clip.first / clip.fps / original.time_base)
    source.seek(first, stream=original)
    packets = (packet for packet in source.demux(original) if packet.size and packet.pts >= first)
    with closing(av.open(file, "w", format="mp4")) as target:
        stream = _add_stream(target, original)
        return _copy(islice(packets, clip.count), target, stream, -first)


@contextmanager
def _opened(path: Path) -> Iterator[Any]:
    """A video to read packets from; names it in errors."""
    try:
        with av.open(str(path)) as container:
            yield container
    except FileNotFoundError as error:
        raise damaged(path, "it is missing") from error
    except (FFmpegError, IndexError) as error:
        raise damaged(path, f"its frames cannot be read: {error}") from error


def _groups(paths: Sequence[Path], file_bytes: int) -> Iterator[list[Path]]:
    """Consecutive files of one encoding that fit into one."""
    for _, alike in groupby(paths, _encoding):
        group: list[Path] = []
        room = file_bytes
        for path in alike:
            size = path.stat().st_size
            if group and size > room:
                yield group
                group, room = [], file_bytes
            group.append(path)
            room -= size
        yield group


def _encoding(path: Path) -> tuple[Any, ...]:
    """What the files of a group must share: everything that a decoder is told once at the beginning."""
    with _opened(path) as container:
        stream = container.streams.video[0]
        return stream.codec.name, stream.codec_context.extradata, stream.time_base


def _join(sources: Sequence[Path], target: Path, fps: int) -> list[int]:
    """Write the frames of some files into one; returns the number there of the first frame of each."""
    target.parent.mkdir(parents=True, exist_ok=True)
    firsts, count = [], 0
    with av.open(str(target), "w", options={"movflags": "faststart"}) as joined:
        stream: Any = None
        for path in sources:
            firsts.append(count)
            with _opened(path) as source:
                original = source.streams.video[0]
                stream = stream or _add_stream(joined, original)
                packets = (packet for packet in source.demux(original) if packet.size)
                count += _copy(packets, joined, stream, round(count / fps / original.time_base))
    with _opened(target) as joined:
        if joined.streams.video[0].frames != count:
            raise damaged(target, f"the {count} frames of {sources[0]} and others became another number")
    return firsts


def _add_stream(container: Any, original: Any) -> Any:
    """A stream for packets of another one, of the same units of time."""
    stream = container.add_stream_from_template(original, opaque=True)  # there need be no encoder of that name
    stream.time_base = original.time_base
    return stream


def _copy(packets: Iterable[Any], target: Any, stream: Any, shift: int) -> int:
    """Copy frames, later by `shift` units of time; returns their number."""
    count = 0
    for packet in packets:
        packet.pts, packet.dts, packet.stream = packet.pts + shift, packet.dts + shift, stream
        target.mux(packet)
        count += 1
    return count


def _put(temporary: Path, path: Path) -> None:
    """Give a complete file its place durably."""
    sync(temporary)
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary.replace(path)
    sync(path.parent)


def _move_clips(index: DatasetIndex, table: pa.Table, feature: str, moved: Mapping[Path, tuple[int, int]]) -> pa.Table:
    """The episodes' table with the new places of a feature's clips."""
    fps, prefix = index.info["fps"], f"{form.VIDEOS}/{feature}"
    numbers, starts = named_videos(index.info, table)[feature], table[f"{prefix}/from_timestamp"].to_pylist()
    places = []
    for number, start, length in zip(numbers, starts, table["length"].to_pylist(), strict=True):
        new, first = moved.get(form.video_path(index.root, feature, number), (number, 0))
        places.append(form.place(prefix, new) | form.clip_times(prefix, first + round(start * fps), length, fps))
    for name in places[0]:
        position = table.schema.get_field_index(name)
        column = pa.array([place[name] for place in places], table.schema.field(position).type)
        table = table.set_column(position, name, column)
    return table
