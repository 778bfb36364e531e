"""One format to another: in constant memory, resumable after a kill, and compared with its source at the end."""

from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

import numpy as np

from robomem.datasets.encoding import EncodedEpisode, encode
from robomem.datasets.lerobot_writer import EpisodeWriter
from robomem.datasets.source import EpisodeSource
from robomem.episode import Episode
from robomem.errors import RobomemError

Report = Callable[[int], None]
"""Told the number of episodes that are done."""


def write_lerobot(source: EpisodeSource, root: Path, jobs: int, report: Report) -> None:
    """Write all episodes of a source as a LeRobotDataset v3, or go on where an earlier call was stopped.

    Args:
        source: Read from several threads at once.
        root: Folder of the new dataset.
        jobs: Threads that read and compress; each holds an episode or two.
        report: Told after each episode.

    Raises:
        RobomemError: the folder holds another dataset, an episode of the source is damaged, or the disk is full.
    """
    with EpisodeWriter(root, source.embodiment, provenance=source.provenance) as writer:
        done = len(writer)
        if writer.provenance != source.provenance or writer.seeds != source.seeds[:done]:
            raise RobomemError(f"{root} holds other episodes than those to convert; give a new folder")
        report(done)
        for number, episode in enumerate(_encoded(source, done, jobs), start=done + 1):
            writer.save(episode)
            report(number)


def _encoded(source: EpisodeSource, start: int, jobs: int) -> Iterator[EncodedEpisode]:
    """The episodes from one on in order, compressed ahead by threads (codecs leave the interpreter's lock alone)."""
    pending: deque[Future[EncodedEpisode]] = deque()
    pool = ThreadPoolExecutor(jobs, thread_name_prefix="convert")
    try:
        for position in range(start, len(source)):
            pending.append(pool.submit(lambda i: encode(source[i], source.embodiment), position))
            if len(pending) > 2 * jobs:
                yield pending.popleft().result()
        while pending:
            yield pending.popleft().result()
    finally:
        pool.shutdown(cancel_futures=True)


def compare(source: EpisodeSource, target: EpisodeSource, report: Report) -> None:
    """Read both to the end and compare every episode, bit for bit.

    Args:
        source: What was converted.
        target: What it became.
        report: Told after each episode.

    Raises:
        RobomemError: names the first episode that differs, and in what.
    """
    if len(source) != len(target):
        raise RobomemError(f"{len(source)} episodes became {len(target)}; convert them anew into another folder")
    for position in range(len(source)):
        different = _difference(source[position], target[position])
        if different:
            raise RobomemError(f"episode {position} was not converted right: {different} differs; convert it anew")
        report(position + 1)


def _difference(a: Episode, b: Episode) -> str | None:
    """What differs between two episodes, if anything does."""
    if a.instruction != b.instruction or a.seed != b.seed:
        return "instruction or seed"
    for name in ("proprio", "actions", "timestamps", "reward", "success"):
        if not np.array_equal(getattr(a, name), getattr(b, name)):
            return name
    return next((f"camera {name}" for name in a.images if not np.array_equal(a.images[name], b.images[name])), None)
