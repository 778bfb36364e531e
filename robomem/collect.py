"""`robomem collect`: oracle trajectories of a simulated task as a LeRobotDataset v3."""

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from functools import partial
from itertools import islice
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
    if not _is_complete(config):
        _record(config)
    return Path(config.root)


def _is_complete(config: CollectConfig) -> bool:
    """Whether there is a dataset that was recorded as this command would, and is as long; its merging is finished."""
    from robomem.datasets.lerobot_format import frame_codec
    from robomem.datasets.lerobot_index import is_dataset, load_index
    from robomem.datasets.lerobot_writer import EpisodeWriter
    from robomem.sim.demonstrate import recording

    root = Path(config.root)
    if not is_dataset(root):
        return False
    index = load_index(root)
    found = index.info["total_episodes"]
    if found < config.episodes or frame_codec(index.info["features"]) != config.frames:
        return False
    if _changes(index.provenance, recording(config.sim, config.demonstration)):
        return False
    EpisodeWriter(root, index.embodiment).close()
    print(f"nothing to record: {root} holds {found} episodes, {config.episodes} are asked for")  # noqa: T201
    return True


def _record(config: CollectConfig) -> None:
    """Start the simulators and add to the dataset what it lacks."""
    from robomem.datasets.lerobot_writer import EpisodeWriter
    from robomem.sim.workers import WorkerProcesses

    count = min(config.sim.workers or os.cpu_count() or 1, config.episodes)
    with closing(WorkerProcesses(partial(_Recorder, config), count)) as workers:
        embodiment, provenance = workers.call([0], "describe", [()])[0]
        with EpisodeWriter(config.root, embodiment, codec=config.frames, provenance=provenance) as writer:
            if changes := _changes(writer.provenance, provenance):
                raise RobomemError(f"{writer.root} was recorded otherwise ({changes}); give another root=")
            _fill(writer, workers, config)


def _fill(writer: "EpisodeWriter", workers: Any, config: CollectConfig) -> None:
    """Try seeds, never more of them at a time than episodes are missing, so that none is recorded in vain."""
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (
        TextColumn("collecting"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
        TextColumn("{task.description}"),
    )
    saved = set(writer.seeds)
    seeds = (s for s in range(config.start_seed, config.start_seed + config.max_seeds) if s not in saved)
    with Progress(*columns) as progress:
        task = progress.add_task("", total=config.episodes, completed=len(writer))
        failed = 0
        while batch := list(islice(seeds, config.episodes - len(writer))):
            for episode in _in_order(workers, batch):
                if episode is None:
                    failed += 1
                    _give_up(failed, len(writer), config)
                else:
                    writer.save(episode)
                progress.update(task, completed=len(writer), description=f"{failed} failed" if failed else "")
    if len(writer) < config.episodes:
        raise RobomemError(
            f"{writer.root} holds {len(writer)} of episodes={config.episodes}, as max_seeds={config.max_seeds} seeds "
            f"from start_seed={config.start_seed} on are spent ({failed} failed now); raise max_seeds"
        )


def _in_order(workers: Any, seeds: Sequence[int]) -> "Iterator[EncodedEpisode | None]":
    """Results of some seeds, in their order."""
    waiting: dict[int, Any] = {}
    due = iter(seeds)
    expected = next(due)
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


def _changes(found: Mapping[str, Any], provenance: Mapping[str, Any]) -> str:
    """In what a dataset differs from a recording of this task, renderer and demonstrator; empty if in nothing."""
    return "; ".join(
        f"{key}: the dataset has {found.get(key)!r}, this command {value!r}"
        for key, value in provenance.items()
        if key != "versions" and found.get(key) != value
    )


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
        return seed, None if episode is None else encode(episode, self._demonstrator.embodiment, self._config.frames)


@hydra_program("collect", CollectConfig)
def main(config: CollectConfig) -> None:
    """Record and say where."""
    print(f"dataset: {collect(config)}")  # noqa: T201
