"""`robomem bench data`: how fast episodes reach a policy, beside LeRobot's own loader and a plain TFDS loop."""

import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import click
import numpy as np

from robomem.bench import squares
from robomem.bench.processes import cpu_seconds, resident_mib
from robomem.bench.squares import CAMERAS, FPS, SIDE
from robomem.errors import RobomemError
from robomem.files import write_json

HORIZON = 8


@dataclass(frozen=True)
class LoaderTiming:
    """What it costs to give a policy ticks to learn from, each with all that came before it within a window."""

    loader: str
    ticks: int
    """To learn from."""
    read: int
    """Ticks read for them, with history."""
    seconds: float
    cpu_seconds: float
    """Processor time of the process and all that it started."""

    @property
    def ticks_per_s(self) -> float:
        """Ticks to learn from, per second."""
        return self.ticks / self.seconds

    @property
    def cpu_ms_per_read(self) -> float:
        """Processor time of each tick that was read, in milliseconds."""
        return 1000 * self.cpu_seconds / self.read

    @property
    def cpu_ms_per_tick(self) -> float:
        """Processor time of each, in milliseconds."""
        return 1000 * self.cpu_seconds / self.ticks


@click.command("data")
@click.option("--episodes", default=24, show_default=True, type=click.IntRange(min=8), help="Of the dataset.")
@click.option("--ticks", default=100, show_default=True, type=click.IntRange(min=2), help="T, of an episode.")
@click.option("--items", default=24, show_default=True, type=click.IntRange(min=1), help="Read by LeRobot's loader.")
@click.option("--epochs", default=10, show_default=True, type=click.IntRange(min=2), help="Read by RoboMem's.")
@click.option("--output", "-o", type=click.Path(dir_okay=False, path_type=Path), help="Write a JSON document too.")
def main(episodes: int, ticks: int, items: int, epochs: int, output: Path | None) -> None:
    """Read the same episodes of two cameras of 128 x 128 pixels with several loaders.

    A policy with memory learns at every tick from all ticks before. LeRobot's loader gives one tick an item, with its
    history by `delta_timestamps`; RoboMem's gives windows of whole episodes, in which every tick has its history, from
    the same videos, and from RLDS; a plain TFDS loop gives the ticks of an episode one after another, unbatched.
    Nothing is kept in memory from one epoch to the next.
    """
    from rich.console import Console
    from rich.table import Table

    from robomem.datasets.matching import AUTO

    with TemporaryDirectory() as folder:
        root = Path(folder) / "dataset"
        _record(root, episodes, ticks)
        mapping = _mapping(Path(folder))
        rlds = _to_rlds(root, mapping)
        lerobot = _lerobot(root, ticks, items)
        ours, memory = _robomem("RoboMem, windows of videos", root, mapping, ticks, epochs)
        plain = _plain_tfds(rlds, epochs)
        ours_rlds, memory_rlds = _robomem("RoboMem, windows of RLDS", rlds, AUTO, ticks, epochs)
    timings = (lerobot, ours, plain, ours_rlds)
    table = Table(title=f"{episodes} episodes of {ticks} ticks, 2 cameras of {SIDE} x {SIDE}")
    for heading in ("loader", "ticks/s", "CPU ms/tick", "CPU ms/tick read"):
        table.add_column(heading, justify="left" if heading == "loader" else "right")
    for timing in timings:
        costs = (timing.cpu_ms_per_tick, timing.cpu_ms_per_read)
        table.add_row(timing.loader, f"{timing.ticks_per_s:.1f}", *(f"{cost:.3f}" for cost in costs))
    console = Console()
    console.print(table)
    result = {
        "speedup": ours.ticks_per_s / lerobot.ticks_per_s,
        "cpu_ratio": lerobot.cpu_ms_per_tick / ours.cpu_ms_per_tick,
        "rlds_speedup": ours_rlds.ticks_per_s / plain.ticks_per_s,
        "rlds_cpu_ratio": plain.cpu_ms_per_tick / ours_rlds.cpu_ms_per_tick,
        "memory_mib": memory,
        "rlds_memory_mib": memory_rlds,
        "loaders": [asdict(timing) for timing in timings],
    }
    console.print(
        f"RoboMem gives {result['speedup']:.1f} times the ticks per second of LeRobot's loader for "
        f"1/{result['cpu_ratio']:.1f} of the processor time each, and {result['rlds_speedup']:.2f} times those of the "
        f"plain TFDS loop for 1/{result['rlds_cpu_ratio']:.2f}; its memory after each epoch: {_mib(memory)} MiB, "
        f"from RLDS {_mib(memory_rlds)} MiB",
        highlight=False,
    )
    if output:
        write_json(output, result)


def _record(root: Path, episodes: int, ticks: int) -> None:
    """A video dataset by LeRobot's own writer."""
    from lerobot.datasets.lerobot_dataset import LeRobotDataset
    from rich.progress import track

    image = {"dtype": "video", "shape": (SIDE, SIDE, 3), "names": ["height", "width", "channels"]}
    vector = {"dtype": "float32", "shape": (squares.NUMBERS,), "names": None}
    features = {f"observation.images.{name}": image for name in CAMERAS}
    features |= {"observation.state": vector, "action": vector}
    dataset: Any = LeRobotDataset.create("local/bench", fps=FPS, features=features, root=root, use_videos=True)
    rng = np.random.default_rng(0)
    for _ in track(range(episodes), "recording"):
        images, numbers = squares.frames(rng, ticks), squares.numbers(rng, ticks)
        for tick in range(ticks):
            frame = {f"observation.images.{name}": pixels[tick] for name, pixels in images.items()}
            frame |= {"observation.state": numbers[tick], "action": numbers[tick], "task": squares.TASK}
            dataset.add_frame(frame)
        dataset.save_episode()
    dataset.finalize()


def _lerobot(root: Path, ticks: int, items: int) -> LoaderTiming:
    """Items at random ticks, each with the history of a whole episode."""
    from lerobot.datasets.lerobot_dataset import LeRobotDataset

    past, future = [(i + 1 - ticks) / FPS for i in range(ticks)], [i / FPS for i in range(HORIZON)]
    history = {f"observation.images.{name}": past for name in CAMERAS} | {"observation.state": past, "action": future}
    dataset: Any = LeRobotDataset("local/bench", root=root, delta_timestamps=history, return_uint8=True)
    order = np.random.default_rng(0).permutation(len(dataset))[: items + 1].tolist()
    dataset[order[0]]
    return _time("LeRobotDataset, delta_timestamps", lambda: (len([dataset[i]]) for i in order[1:]), ticks)


def _to_rlds(root: Path, mapping: str) -> Path:
    """The same episodes as RLDS."""
    from robomem.datasets.open import open_source
    from robomem.datasets.rlds_writer import write_rlds

    return write_rlds(open_source(root, mapping=mapping), root.with_name("rlds"))


def _plain_tfds(folder: Path, epochs: int) -> LoaderTiming:
    """A loop over the steps in a process of its own."""
    command = [sys.executable, "-m", "robomem.bench.plain_tfds", str(folder), str(epochs)]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        raise RobomemError(f"TFDS could not read {folder}: {done.stderr.strip().splitlines()[-1]}")
    costs = json.loads(done.stdout.splitlines()[-1])
    return LoaderTiming("plain TFDS loop", read=costs["ticks"], **costs)


def _robomem(loader: str, root: Path, mapping: str, ticks: int, epochs: int) -> tuple[LoaderTiming, list[float]]:
    """Windows of whole episodes, decoded anew in each epoch; and the memory after each."""
    from robomem.datasets.open import open_source
    from robomem.datasets.sequences import SequenceBatches

    memory: list[float] = []
    batches = SequenceBatches(open_source(root, mapping=mapping), 4, ticks, HORIZON, seed=0)
    next(batches.epoch(0))

    def windows() -> Iterator[int]:
        for epoch in range(epochs):
            for window in batches.epoch(epoch):
                yield int(window.valid.sum())
            memory.append(resident_mib())

    return _time(loader, windows), memory


def _mapping(folder: Path) -> str:
    """A file that says what the dataset's fields mean."""
    import yaml

    spec = squares.embodiment().proprio
    vector = {name: list(value) if isinstance(value, tuple) else value for name, value in asdict(spec).items()}
    mapping = {
        "format": "lerobot",
        "cameras": {name: f"observation.images.{name}" for name in CAMERAS},
        "proprio": {"keys": ["observation.state"], "spec": vector},
        "action": {"keys": ["action"], "spec": vector},
        "instruction": "task",
    }
    path = folder / "bench.yaml"
    path.write_text(yaml.safe_dump(mapping))
    return str(path)


def _time(loader: str, run: Callable[[], Iterator[int]], history: int = 1) -> LoaderTiming:
    """Time an iterator over numbers of ticks, for each of which `history` are read."""
    start, cpu = time.perf_counter(), cpu_seconds()
    ticks = sum(run())
    return LoaderTiming(loader, ticks, ticks * history, time.perf_counter() - start, cpu_seconds() - cpu)


def _mib(memory: Sequence[float]) -> str:
    return ", ".join(f"{size:.0f}" for size in memory)
