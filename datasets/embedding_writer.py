"""Fills an embedding cache, episode by episode; a killed process loses the episode it was at."""

import json
import os
import shutil
import zlib
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import asdict
from pathlib import Path
from typing import BinaryIO

import numpy as np
import torch
from numpy import ndarray

from robomem.datasets.embedding_cache import (
    CONTENTS,
    DTYPE,
    EPISODES,
    Contents,
    FrameEncoder,
    damaged,
    finished_episodes,
)
from robomem.datasets.source import EpisodeSource
from robomem.episode import Episode
from robomem.errors import RobomemError
from robomem.files import disk_guard, locked, sync, write_json


def fill(
    folder: Path, contents: Contents, source: EpisodeSource, encoder: FrameEncoder, report: Callable[[int], object]
) -> None:
    """Encode the frames of all episodes that a cache does not hold yet.

    Args:
        folder: Of the cache; made if it is missing.
        contents: Of the source and the encoder.
        source: The episodes.
        encoder: What encodes.
        report: Called with the ticks that are done, after each episode and at the beginning.

    Raises:
        RobomemError: another process fills it, it is damaged or of other contents, the disk is full, the dataset is
            damaged, or float16 cannot hold a feature.
    """
    busy = f"another process makes the features in {folder}; wait for it"
    with (
        disk_guard(folder, "the features of the other episodes were not kept"),
        locked(folder / ".lock", busy),
    ):
        if not (folder / EPISODES).exists():
            write_json(folder / CONTENTS, asdict(contents))
        contents.check(folder)
        finished, end = finished_episodes(folder, contents)
        done = len(finished)
        _require_space(folder, contents.size - len(contents.cameras) * contents.starts[done] * contents.bytes_per_tick)
        report(contents.starts[done])
        with ExitStack() as stack:
            files = [stack.enter_context(_open(folder, contents, camera, done)) for camera in contents.cameras]
            lines = stack.enter_context((folder / EPISODES).open("ab"))
            lines.truncate(end)
            sync(folder)
            for position in range(done, len(contents.lengths)):
                features = _encode(source[position], encoder, contents, position)
                for file, array in zip(files, features, strict=True):
                    _write(file, memoryview(array).cast("B"))
                _write(lines, json.dumps({"crc32": [zlib.crc32(array) for array in features]}).encode() + b"\n")
                report(contents.starts[position + 1])


def _encode(episode: Episode, encoder: FrameEncoder, contents: Contents, position: int) -> list[ndarray]:
    """Features of each camera, (T, N, C) of float16."""
    if len(episode) != contents.lengths[position]:
        raise RobomemError(f"episode {position} has {len(episode)} ticks in place of {contents.lengths[position]}")
    encoded = [encoder(torch.tensor(episode.images[camera])).cpu().float().numpy() for camera in contents.cameras]
    with np.errstate(over="ignore"):
        features = [np.ascontiguousarray(array, DTYPE) for array in encoded]
    if not all(np.isfinite(array).all() for array in features):
        raise RobomemError(
            f"the encoder makes a feature of episode {position} that float16 cannot hold; "
            "choose another encoder, or train without a cache"
        )
    return features


def _open(folder: Path, contents: Contents, camera: str, done: int) -> BinaryIO:
    """The file of a camera, at the end of what is finished; the rest of it is dropped."""
    path = contents.file(folder, camera)
    file = path.open("r+b" if path.exists() else "w+b")
    shape = contents.starts[-1], *contents.shape
    np.lib.format.write_array_header_1_0(file, {"descr": DTYPE.str, "fortran_order": False, "shape": shape})
    end = file.tell() + contents.starts[done] * contents.bytes_per_tick
    if file.seek(0, os.SEEK_END) < end:
        raise damaged(folder, f"{path.name} is shorter than its {done} episodes")
    file.truncate(file.seek(end))
    return file


def _write(file: BinaryIO, data: bytes | memoryview) -> None:
    file.write(data)
    file.flush()
    os.fsync(file.fileno())


def _require_space(folder: Path, needed: int) -> None:
    free = shutil.disk_usage(folder).free
    if needed > free:
        raise RobomemError(
            f"{folder} needs {needed / 2**30:.1f} GiB and its disk has {free / 2**30:.1f}; free some space, or give "
            "a folder on another disk"
        )
