"""One format to another: in constant memory, resumable after a kill, and compared with its source at the end."""

from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
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
    """Read both to the end and compare every episode, bit for bit; frames of videos with what they must decode to.

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
    worst = float("inf")
    for position in range(len(source)):
        found, original = target[position], source[position]
        expected = _decoded(original, source.embodiment.fps, lossy) if lossy else original
        if different := _difference(expected, found):
            raise RobomemError(f"episode {position} was not converted right: {different} differs; convert it anew")
        if lossy:
            worst = min(worst, *(_noise_ratio(original.images[name], found.images[name]) for name in found.images))
        report(position + 1)
    return worst


def _decoded(episode: Episode, fps: int, codec: FrameCodec) -> Episode:
    """An episode as it is once a video codec has had its frames; encoders are deterministic."""
    images = {name: decode_video(encode_video(frames, fps, codec), frames) for name, frames in episode.images.items()}
    return replace(episode, images=images)


def _noise_ratio(original: ndarray, found: ndarray) -> float:
    """Peak signal-to-noise ratio in dB of the frames of a camera."""
    squares = [np.square(a.astype(np.float32) - b).mean() for a, b in zip(original, found, strict=True)]
    return float(20 * np.log10(255) - 10 * np.log10(max(np.mean(squares), 1e-9)))


def _difference(a: Episode, b: Episode) -> str | None:
    """What differs between two episodes, if anything does."""
    if a.instruction != b.instruction or a.seed != b.seed:
        return "instruction or seed"
    for name in ("proprio", "actions", "timestamps", "reward", "success"):
        if not np.array_equal(getattr(a, name), getattr(b, name)):
            return name
    return next((f"camera {name}" for name in a.images if not np.array_equal(a.images[name], b.images[name])), None)
