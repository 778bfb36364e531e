"""`robomem bench convert`: memory and time of conversions against the number of episodes."""

import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from itertools import groupby
from pathlib import Path
from tempfile import TemporaryDirectory

import click

from robomem.bench.processes import resident_mib
from robomem.errors import RobomemError
from robomem.files import write_json

_PERIOD = 0.05
"""Seconds between two looks at the memory."""


@dataclass(frozen=True)
class Conversion:
    """What one run of `robomem data convert` took, its comparison with the source included."""

    to: str
    """Format of the target."""
    episodes: int
    seconds: float
    peak_mib: float
    """Most memory that the process and all that it started held at a time."""


@click.command("convert")
@click.option(
    "--episodes",
    "counts",
    multiple=True,
    default=(100, 1000),
    show_default=True,
    type=click.IntRange(min=1),
    help="Of a dataset; give it once for each dataset.",
)
@click.option("--ticks", default=20, show_default=True, type=click.IntRange(min=2), help="T, of an episode.")
@click.option("--output", "-o", type=click.Path(dir_okay=False, path_type=Path), help="Write a JSON document too.")
def main(counts: tuple[int, ...], ticks: int, output: Path | None) -> None:
    """Convert datasets of several sizes from LeRobotDataset v3 to RLDS and back, each in a process of its own.

    Two cameras of 128 x 128 pixels. Memory counts the process of TensorFlow too.
    """
    from rich.console import Console
    from rich.table import Table

    with TemporaryDirectory() as folder:
        done = [found for count in sorted(counts) for found in _there_and_back(Path(folder) / str(count), count, ticks)]
    table = Table(title=f"robomem data convert, {ticks} ticks an episode")
    for heading in ("to", "episodes", "episodes/s", "peak MiB"):
        table.add_column(heading, justify="left" if heading == "to" else "right")
    done.sort(key=lambda found: found.to)
    for found in done:
        rate = found.episodes / found.seconds
        table.add_row(found.to, f"{found.episodes:,}", f"{rate:.1f}", f"{found.peak_mib:.0f}")
    growth = {to: _growth(list(group)) for to, group in groupby(done, key=lambda found: found.to)}
    console = Console()
    console.print(table)
    for to, ratio in growth.items():
        console.print(f"to {to}: {ratio:.2f} times the memory for the most episodes as for the fewest", highlight=False)
    if output:
        write_json(output, {"growth": growth, "conversions": [asdict(found) for found in done]})


def _growth(conversions: list[Conversion]) -> float:
    return conversions[-1].peak_mib / conversions[0].peak_mib


def _there_and_back(folder: Path, count: int, ticks: int) -> Iterator[Conversion]:
    """Record a dataset, convert it into RLDS and that into another dataset."""
    recorded, rlds = folder / "recorded", folder / "rlds"
    _record(recorded, count, ticks)
    yield _convert(recorded, rlds, "rlds", count)
    yield _convert(rlds, folder / "back", "lerobot", count)


def _record(root: Path, count: int, ticks: int) -> None:
    from rich.progress import track

    from robomem.bench import squares
    from robomem.datasets.lerobot_writer import EpisodeWriter

    with EpisodeWriter(root, squares.embodiment()) as writer:
        for episode in track(squares.episodes(count, ticks), f"recording {count:,} episodes", total=count):
            writer.save(episode)


def _convert(source: Path, target: Path, to: str, count: int) -> Conversion:
    """Run the command and watch its memory; its progress bar is the user's."""
    command = [sys.executable, "-m", "robomem", "data", "convert", str(source), str(target), "--to", to]
    start, peak = time.perf_counter(), 0.0
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    try:
        while process.poll() is None:
            peak = max(peak, resident_mib(process.pid))
            time.sleep(_PERIOD)
    finally:
        process.kill()
    if process.returncode:
        raise RobomemError(f"the conversion to {to} ended with exit code {process.returncode}; its message is above")
    return Conversion(to, count, time.perf_counter() - start, peak)
