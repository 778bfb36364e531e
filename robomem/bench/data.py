"""`robomem bench data`: how fast episodes reach a policy, beside LeRobot's own loader on the same files."""

import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import click
import numpy as np

from robomem.files import write_json

FPS, SIDE, CAMERAS, HORIZON = 20, 128, ("top", "wrist"), 8


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
    """Processor time of the process and its threads."""

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
    """Read a video dataset of two cameras of 128 x 128 pixels, made by LeRobot, with its loader and with RoboMem's.

    A policy with memory learns at every tick from all ticks before. LeRobot's loader gives one tick an item, with its
    history by `delta_timestamps`; RoboMem's gives windows of whole episodes, in which every tick has its history.
    Nothing is kept in memory from one epoch to the next.
    """
    from rich.console import Console
    from rich.table import Table

    with TemporaryDirectory() as folder:
        root = Path(folder) / "dataset"
        _record(root, episodes, ticks)
        lerobot = _lerobot(root, ticks, items)
        ours, memory = _robomem(root, ticks, epochs)
    table = Table(title=f"{episodes} episodes of {ticks} ticks, 2 cameras of {SIDE} x {SIDE}, video")
    for heading in ("loader", "ticks/s", "CPU ms/tick", "CPU ms/tick read"):
        table.add_column(heading, justify="left" if heading == "loader" else "right")
    for timing in (lerobot, ours):
        costs = (timing.cpu_ms_per_tick, timing.cpu_ms_per_read)
        table.add_row(timing.loader, f"{timing.ticks_per_s:.1f}", *(f"{cost:.3f}" for cost in costs))
    console = Console()
    console.print(table)
    result = {
        "speedup": ours.ticks_per_s / lerobot.ticks_per_s,
        "cpu_ratio": lerobot.cpu_ms_per_tick / ours.cpu_ms_per_tick,
        "memory_mib": memory,
        "loaders": [asdict(lerobot), asdict(ours)],
    }
    console.print(
        f"RoboMem gives {result['speedup']:.1f} times the ticks per second for 1/{result['cpu_ratio']:.1f} of the "
        f"processor time each; its memory after each epoch: {', '.join(f'{m:.0f}' for m in memory)} MiB",
        highlight=False,
    )
    if output:
        write_json(output, result)


def _record(root: Path, episodes: int, ticks: int) -> None:
    """A video dataset by LeRobot's own writer, of squares that move over a textured table."""
    from lerobot.datasets.lerobot_dataset import LeRobotDataset
    from rich.progress import track

    image = {"dtype": "video", "shape": (SIDE, SIDE, 3), "names": ["height", "width", "channels"]}
    vector = {"dtype": "float32", "shape": (7,), "names": None}
    features = {f"observation.images.{name}": image for name in CAMERAS}
    features |= {"observation.state": vector, "action": vector}
    dataset: Any = LeRobotDataset.create("local/bench", fps=FPS, features=features, root=root, use_videos=True)
    rng = np.random.default_rng(0)
    for _ in track(range(episodes), "recording"):
        table = {name: rng.integers(90, 130, (SIDE, SIDE, 3), np.uint8) for name in CAMERAS}
        path = np.cumsum(rng.integers(-2, 3, (ticks, 2)), axis=0) + SIDE // 2
        for y, x in path.clip(0, SIDE - 24):
            frame: dict[str, Any] = {f"observation.images.{name}": table[name].copy() for name in CAMERAS}
            for pixels in frame.values():
                pixels[y : y + 24, x : x + 24] = (200, 30, 30)
            numbers = rng.normal(size=7).astype(np.float32)
            dataset.add_frame(frame | {"observation.state": numbers, "action": numbers, "task": "follow the square"})
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


def _robomem(root: Path, ticks: int, epochs: int) -> tuple[LoaderTiming, list[float]]:
    """Windows of whole episodes, decoded anew in each epoch; and the memory after each."""
    from robomem.datasets.open import open_source
    from robomem.datasets.sequences import SequenceBatches

    memory: list[float] = []
    batches = SequenceBatches(open_source(root, mapping=_mapping(root.parent)), 4, ticks, HORIZON, seed=0)
    next(batches.epoch(0))

    def windows() -> Iterator[int]:
        for epoch in range(epochs):
            for window in batches.epoch(epoch):
                yield int(window.valid.sum())
            memory.append(_resident_mib())

    return _time("RoboMem, windows of episodes", windows), memory


def _mapping(folder: Path) -> str:
    """A file that says what the dataset's fields mean."""
    import yaml

    vector = {"names": [f"q{i}" for i in range(7)], "units": ["rad"] * 7, "frame": "joints"}
    vector |= {"low": [-10.0] * 7, "high": [10.0] * 7}
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
    start, cpu = time.perf_counter(), time.process_time()
    ticks = sum(run())
    return LoaderTiming(loader, ticks, ticks * history, time.perf_counter() - start, time.process_time() - cpu)


def _resident_mib() -> float:
    """Memory that the process holds now."""
    import psutil

    return psutil.Process().memory_info().rss / 2**20
