"""One format to another: in constant memory, resumable after a kill, and compared with its source at the end."""

import math
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from jaxtyping import Float, UInt8
from numpy import ndarray

from robomem.datasets.config import FrameCodec
from robomem.datasets.encoding import EncodedEpisode
from robomem.datasets.lerobot_writer import EpisodeWriter
from robomem.datasets.source import EpisodeSource
from robomem.datasets.video_encoding import decode_video, encode_video
from robomem.episode import Episode
from robomem.errors import RobomemError

Report = Callable[[int], None]
"""Told the number of episodes that are done."""


@dataclass(frozen=True)
class Encoders:
    """What reads and encodes the episodes of a source, side by side and elsewhere."""

    codec: FrameCodec
    """How frames are stored."""
    begin: Callable[[int], "Future[EncodedEpisode]"]
    """Begins with the episode at a position of the source."""
    ahead: int
    """Episodes that are encoded before they can be written, at most; all of them are in memory."""


@contextmanager
def encoding_threads(source: EpisodeSource, codec: FrameCodec, jobs: int) -> Iterator[Encoders]:
    """Threads of this process; codecs leave the interpreter's lock alone."""
    pool = ThreadPoolExecutor(jobs, thread_name_prefix="encode")
    try:
        yield Encoders(codec, lambda position: pool.submit(source.encoded, position, codec), 2 * jobs)
    finally:
        pool.shutdown(cancel_futures=True)


def write_lerobot(source: EpisodeSource, root: Path, encoders: Encoders, report: Report) -> None:
    """Write all episodes of a source as a LeRobotDataset v3, or go on where an earlier call was stopped.

    Args:
        source: What to write.
        root: Folder of the new dataset.
        encoders: Of this source.
        report: Told after each episode.

    Raises:
        RobomemError: the folder holds another dataset, an episode of the source is damaged, or the disk is full.
    """
    with EpisodeWriter(root, source.embodiment, codec=encoders.codec, provenance=source.provenance) as writer:
        done = len(writer)
        if writer.provenance != source.provenance or writer.seeds != source.seeds[:done]:
            raise RobomemError(f"{root} holds other episodes than those to convert; give a new folder")
        report(done)
        for number, episode in enumerate(_in_order(encoders, range(done, len(source))), start=done + 1):
            writer.save(episode)
            report(number)


def _in_order(encoders: Encoders, positions: range) -> Iterator[EncodedEpisode]:
    """The episodes at some positions in order, some of them encoded ahead."""
    pending: deque[Future[EncodedEpisode]] = deque()
    for position in positions:
        pending.append(encoders.begin(position))
        if len(pending) > encoders.ahead:
            yield pending.popleft().result()
    while pending:
        yield pending.popleft().result()


def compare(source: EpisodeSource, target: EpisodeSource, report: Report) -> float:
    """Read both to the end and compare every episode: bit for bit, but for frames that a video codec was given.

    Of those each must be about as near to its source as a fresh encoding leaves it. It need not be equal to that one,
    since an encoder may encode the same frame differently when it is called again.

    Args:
        source: What was converted.
        target: What it became.
        report: Told after each episode.

    Returns:
        The peak signal-to-noise ratio in dB of the worst camera in the worst episode; infinite if nothing was lost.

    Raises:
        RobomemError: names the first episode that differs, and in what.
    """
    if len(source) != len(target):
        raise RobomemError(f"{len(source)} episodes became {len(target)}; convert them anew into another folder")
    lossy = target.codec if target.codec.is_video and target.codec != source.codec else None
    worst = 0.0
    for position in range(len(source)):
        found, original = target[position], source[position]
        errors = {name: squared_errors(frames, found.images[name]) for name, frames in original.images.items()}
        limits = _limits(original, source.embodiment.fps, lossy) if lossy else dict.fromkeys(errors, 0.0)
        too_far = (f"camera {name}" for name in errors if (errors[name] > limits[name]).any())
        if different := _difference(original, found) or next(too_far, None):
            raise RobomemError(f"episode {position} was not converted right: {different} differs; convert it anew")
        worst = max(worst, *(float(error.mean()) for error in errors.values()))
        report(position + 1)
    return 20 * math.log10(255) - 10 * math.log10(worst) if worst else math.inf


def squared_errors(a: UInt8[ndarray, "T Y X 3"], b: UInt8[ndarray, "T Y X 3"]) -> Float[ndarray, " T"]:
    """Mean squared difference of each frame, in levels of 0 to 255; infinite if their number or size differs."""
    if a.shape != b.shape:
        return np.full(len(a), np.inf)
    return np.array([np.square(one.astype(np.float32) - other).mean() for one, other in zip(a, b, strict=True)])


def _limits(episode: Episode, fps: int, codec: FrameCodec) -> dict[str, ndarray]:
    """Squared errors of each frame, by camera, that a codec may leave."""
    fresh = {name: decode_video(encode_video(frames, fps, codec), frames) for name, frames in episode.images.items()}
    return {name: 1 + 2 * squared_errors(frames, fresh[name]) for name, frames in episode.images.items()}


def _difference(a: Episode, b: Episode) -> str | None:
    """What differs between two episodes, frames left out, if anything does."""
    if a.instruction != b.instruction or a.seed != b.seed:
        return "instruction or seed"
    names = ("proprio", "actions", "timestamps", "reward", "success")
    return next((name for name in names if not np.array_equal(getattr(a, name), getattr(b, name))), None)
