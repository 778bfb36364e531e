"""`robomem collect`: oracle trajectories of a simulated task as a LeRobotDataset v3."""

import os
from collections.abc import Iterator
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from robomem.config import CollectConfig, hydra_program
from robomem.errors import RobomemError

if TYPE_CHECKING:
    from robomem.datasets.encoding import EncodedEpisode
    from robomem.datasets.lerobot_writer import EpisodeWriter


def collect(config: CollectConfig) -> Path:
    """Record episodes until the dataset holds as many as asked for; what it holds already counts.

    Seeds are tried in order from `config.start_seed`, and episodes are saved in the order of their seeds, so that the
    episodes depend on neither the number of workers nor on interruptions.

    Returns:
        The dataset's folder.

    Raises:
        RobomemError: nothing can be rendered, the dataset has another embodiment or was recorded otherwise, the oracle
            fails on nearly all seeds, or the disk is full.
    """
    from robomem.datasets.lerobot_writer import EpisodeWriter
    from robomem.sim.workers import WorkerProcesses

    build = partial(_Recorder, config)
    workers = WorkerProcesses(build, config.sim.workers or os.cpu_count() or 1)
    with closing(workers):
        embodiment, provenance = workers.call([0], "describe", [()])[0]
        with EpisodeWriter(config.root, embodiment, provenance=provenance) as writer:
            _same_recording(writer, provenance)
            _fill(writer, workers, config)
    return Path(config.root)


def _fill(writer: "EpisodeWriter", workers: Any, config: CollectConfig) -> None:
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (
        TextColumn("collecting"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
        TextColumn("{task.description}"),
    )
    with Progress(*columns) as progress:
        task = progress.add_task("", total=config.episodes, completed=len(writer))
        failed = 0
        for episode in _in_order(workers, config, set(writer.seeds)):
            if len(writer) >= config.episodes:
                return
            if episode is None:
                failed += 1
                _give_up(failed, len(writer), config)
            else:
                writer.save(episode)
            progress.update(task, completed=len(writer), description=f"{failed} failed" if failed else "")


def _in_order(workers: Any, config: CollectConfig, saved: set[int]) -> "Iterator[EncodedEpisode | None]":
    """Results of the seeds not yet saved, in the order of the seeds."""
    seeds = [s for s in range(config.start_seed, config.start_seed + config.max_seeds) if s not in saved]
    waiting: dict[int, Any] = {}
    due = iter(seeds)
    expected = next(due, None)
    for seed, episode in workers.map("record", ((seed,) for seed in seeds)):
        waiting[seed] = episode
        while expected in waiting:
            yield waiting.pop(expected)
            expected = next(due, None)


def _give_up(failed: int, saved: int, config: CollectConfig) -> None:
    if failed >= 20 and failed > 9 * saved:
        raise RobomemError(
            f"the oracle failed on {failed} of {failed + saved} seeds of {config.sim.env_id};"
            " lower demonstration.noise, or keep failures with keep_failures=true"
        )


def _same_recording(writer: "EpisodeWriter", provenance: dict[str, Any]) -> None:
    """Refuse to mix recordings of another task, renderer or demonstrator."""
    changed = {
        key: (writer.provenance.get(key), value)
        for key, value in provenance.items()
        if key != "versions" and writer.provenance.get(key) != value
    }
    if changed:
        sides = "; ".join(f"{key}: the dataset has {a!r}, this command {b!r}" for key, (a, b) in changed.items())
        raise RobomemError(f"{writer.root} was recorded otherwise ({sides}); give another root=")


class _Recorder:
    """Lives in a worker process: demonstrates, and encodes what it kept."""

    def __init__(self, config: CollectConfig) -> None:
        from robomem.sim.demonstrate import Demonstrator

        self._config = config
        self._demonstrator = Demonstrator(config.sim, config.demonstration)

    def describe(self) -> tuple[Any, dict[str, Any]]:
        """The embodiment and the provenance of the dataset."""
        return self._demonstrator.embodiment, self._demonstrator.provenance()

    def record(self, seed: int) -> "tuple[int, EncodedEpisode | None]":
        """The encoded episode of a seed, or None if the oracle failed."""
        from robomem.datasets.encoding import encode

        episode = self._demonstrator.demonstrate(seed, self._config.keep_failures)
        return seed, None if episode is None else encode(episode, self._demonstrator.embodiment)


@hydra_program("collect", CollectConfig)
def main(config: CollectConfig) -> None:
    """Record and say where."""
    print(f"dataset: {collect(config)}")  # noqa: T201
