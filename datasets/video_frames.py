"""Frames of a video by their number: each is decoded once, from the nearest keyframe before the first."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from jaxtyping import UInt8
from numpy import ndarray

from robomem.datasets import lerobot_format as form
from robomem.datasets.lerobot_index import damaged, reading

_REORDERED = 16
"""Most frames that a codec may store between the order of decoding and that of showing."""


@dataclass(frozen=True, kw_only=True)
class Clip:
    """The frames of one episode in a video file that holds many."""

    path: Path
    episode: int
    """Index of the episode, for messages."""
    first: int
    """Number of its first frame in the file."""
    count: int
    """Number of its frames."""
    fps: float
    """Frames per second of the file."""


CLIP_COLUMNS = ("chunk_index", "file_index", "from_timestamp", "to_timestamp")
"""What LeRobot notes of each video of an episode, in columns of the episodes' table named `videos/FEATURE/...`."""


def find_clip(root: Path, info: Mapping[str, Any], row: Mapping[str, Any], feature: str) -> Clip:
    """Where LeRobot keeps the frames of a feature in an episode.

    Args:
        root: Folder of the dataset.
        info: Its `meta/info.json`.
        row: The episode's row in the episodes' table: `episode_index`, `length` and the feature's `CLIP_COLUMNS`.
        feature: A feature of type `video`.

    Raises:
        RobomemError: the row has no such video, or the video has another number of frames than the episode has ticks.
    """
    with reading(root / form.EPISODES):
        chunk, file, start, stop = (row[f"{form.VIDEOS}/{feature}/{column}"] for column in CLIP_COLUMNS)
        path = root / info["video_path"].format(video_key=feature, chunk_index=chunk, file_index=file)
        first, end = round(start * info["fps"]), round(stop * info["fps"])
    if end - first != row["length"]:
        what = f"{end - first} frames of {feature} for the {row['length']} ticks of episode {row['episode_index']}"
        raise damaged(root / form.EPISODES, f"it counts {what}")
    return Clip(path=path, episode=row["episode_index"], first=first, count=row["length"], fps=info["fps"])


def named_videos(info: Mapping[str, Any], episodes: pa.Table) -> dict[str, list[int]]:
    """Running number of the video file of each episode, by feature, in a dataset of RoboMem."""
    numbers = {}
    for feature in form.video_features(info["features"]) if len(episodes) else ():
        chunks, files = (episodes[f"{form.VIDEOS}/{feature}/{part}_index"].to_pylist() for part in ("chunk", "file"))
        numbers[feature] = [chunk * form.FILES_PER_CHUNK + file for chunk, file in zip(chunks, files, strict=True)]
    return numbers


def next_video(info: Mapping[str, Any], episodes: pa.Table) -> int:
    """The first running number that no video file of a dataset of RoboMem has."""
    return 1 + max((number for numbers in named_videos(info, episodes).values() for number in numbers), default=-1)


def remove_unnamed(root: Path, info: Mapping[str, Any], episodes: pa.Table) -> None:
    """Remove the video files of a dataset of RoboMem that no committed episode is in, and folders that are empty."""
    named = {
        form.video_path(root, feature, number)
        for feature, numbers in named_videos(info, episodes).items()
        for number in numbers
    }
    for path in (root / form.VIDEOS).glob("*/*/*.mp4"):
        if path not in named:
            path.unlink()
    for folder in (root / form.VIDEOS).glob("*/*"):
        if not any(folder.iterdir()):
            folder.rmdir()


def read_clip(clip: Clip, height: int, width: int) -> UInt8[ndarray, "T Y X 3"]:
    """RGB frames of an episode.

    Args:
        clip: Which frames.
        height: Of a frame in pixels.
        width: Of a frame in pixels.

    Raises:
        RobomemError: the file is missing or damaged, lacks frames of the episode, or has frames of another size.
    """
    from av.error import FFmpegError

    frames, found = np.empty((clip.count, height, width, 3), np.uint8), 0
    try:
        for number, frame in _decode(clip):
            if number != clip.first + found:
                raise damaged(clip.path, f"it lacks the frame of tick {found} of episode {clip.episode}")
            if frame.shape != frames.shape[1:]:
                raise damaged(clip.path, f"a frame of episode {clip.episode} has shape {frame.shape}")
            frames[found] = frame
            found += 1
    except FileNotFoundError as error:
        raise damaged(clip.path, f"it is missing and holds frames of episode {clip.episode}") from error
    except (FFmpegError, IndexError) as error:
        raise damaged(clip.path, f"frame {found} of episode {clip.episode} cannot be decoded: {error}") from error
    if found < clip.count:
        raise damaged(clip.path, f"it has {found} frames for the {clip.count} ticks of episode {clip.episode}")
    return frames


def _decode(clip: Clip) -> Iterator[tuple[int, ndarray]]:
    """Numbers and pixels of the frames from the first of the clip to its last."""
    import av

    with av.open(str(clip.path)) as container:
        stream = container.streams.video[0]
        per_frame = 1 / (clip.fps * float(stream.time_base or 1))
        frames, ahead = iter(()), None
        # A seek goes by the order of decoding, so it may end at a keyframe that is shown after the first frame.
        for margin in (0, _REORDERED):
            container.seek(round(max(clip.first - margin + 0.25, 0) * per_frame), stream=stream)
            frames = container.decode(stream)
            ahead = next(frames, None)
            if ahead is None or round((ahead.pts or 0) / per_frame) <= clip.first:
                break
        for frame in chain([ahead] if ahead else [], frames):
            number = round((frame.pts or 0) / per_frame)
            if number >= clip.first + clip.count:
                return
            if number >= clip.first:
                if frame.is_corrupt:
                    raise damaged(clip.path, f"frame {number - clip.first} of episode {clip.episode} is corrupt")
                yield number, frame.to_ndarray(format="rgb24")
            if number == clip.first + clip.count - 1:
                return
