"""What merging and splitting share: episodes of any source, written as a dataset of their own."""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from robomem.errors import RobomemError

if TYPE_CHECKING:
    from robomem.datasets.source import EpisodeSource


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


def write(source: "EpisodeSource", target: Path) -> None:
    """Write a source as a LeRobotDataset v3, under a progress bar."""
    from rich.console import Console

    from robomem.datasets.convert import write_lerobot
    from robomem.progress import counting

    with counting(str(target), len(source)) as report:
        write_lerobot(source, target, os.cpu_count() or 1, report)
    ticks = sum(source.lengths)
    Console().print(f"{target}: {len(source)} episodes, {ticks:,} ticks", highlight=False, soft_wrap=True)
