"""What converting, merging and splitting share: episodes of any source, written as a LeRobotDataset v3."""

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import numpy as np

from robomem.datasets.config import CODECS, FrameCodec
from robomem.errors import RobomemError

if TYPE_CHECKING:
    from robomem.datasets.convert import Encoders
    from robomem.datasets.source import EpisodeSource

KEEP = "keep"


def frame_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options that choose a codec; `choose_codec` reads them."""
    codec = click.option(
        "--codec",
        type=click.Choice([KEEP, *CODECS]),
        default=KEEP,
        show_default=True,
        help="Frames: png loses nothing; h264 and av1 are videos; keep copies what RoboMem wrote, and is else png.",
    )
    crf = click.option("--crf", type=int, help="Of videos: 0 (best) to 51; 18 for h264, 30 for av1 by default.")
    return codec(crf(command))


def choose_codec(source: "EpisodeSource", codec: str, crf: int | None) -> FrameCodec:
    """The codec that the options tell."""
    if codec != KEEP:
        return FrameCodec(codec=codec, crf=crf)
    if crf is not None:
        raise RobomemError(f"--crf {crf} is of a video; give --codec h264 or av1 with it")
    return source.codec


def available_cores() -> int:
    """Cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def share_out(total: int, shares: Mapping[str, float], seed: int) -> dict[str, list[int]]:
    """Disjoint episodes for each name, all of them together, each in the order of the dataset.

    Args:
        total: Number of episodes.
        shares: Of the whole, by name; they make 1.
        seed: Of the order in which episodes are shared out.

    Raises:
        RobomemError: a name gets no episode.
    """
    order = np.random.default_rng(seed).permutation(total)
    ends = np.round(np.cumsum(list(shares.values())) * total).astype(int)
    parts = np.split(order, ends[:-1])
    for name, part in zip(shares, parts, strict=True):
        if not len(part):
            raise RobomemError(f"{name} would get none of {total} episodes; give it a larger share")
    return {name: np.sort(part).tolist() for name, part in zip(shares, parts, strict=True)}


def write(source: "EpisodeSource", target: Path, codec: FrameCodec) -> None:
    """Write a source as a LeRobotDataset v3 by threads of this process, under a progress bar, and say so."""
    from rich.console import Console

    from robomem.datasets.convert import encoding_threads

    with encoding_threads(source, codec, available_cores()) as encoders:
        write_encoded(source, target, encoders)
    ticks = sum(source.lengths)
    Console().print(f"{target}: {len(source)} episodes, {ticks:,} ticks", highlight=False, soft_wrap=True)


def write_encoded(source: "EpisodeSource", target: Path, encoders: "Encoders") -> None:
    """Write a source as a LeRobotDataset v3, under a progress bar."""
    from robomem.datasets.convert import write_lerobot
    from robomem.progress import counting

    with counting(f"writing {target}", len(source)) as report:
        write_lerobot(source, target, encoders, report)
