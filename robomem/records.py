"""Results of episodes on disk: none is lost to a kill, and results of two configurations never mix."""

import json
import os
import shutil
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from robomem.errors import RobomemError
from robomem.files import acquire, disk_guard, read_json, write_json
from robomem.rollout import EpisodeResult

CONFIG = "config.json"
EPISODES = "episodes.jsonl"
_LOCK = ".lock"


class EpisodeLog:
    """The results in a folder, one line each; a context manager that keeps other processes out."""

    def __init__(self, folder: Path, configuration: Mapping[str, Any], overwrite: bool = False) -> None:
        """Open a folder, and mend a line that a kill has torn.

        Args:
            folder: Made if missing.
            configuration: JSON values that determine the results.
            overwrite: Drop the results of another configuration instead of refusing them.

        Raises:
            RobomemError: another process writes there, results of another configuration are there (both are named),
                or a line is damaged.
        """
        self.folder = folder
        self.configuration = dict(configuration)
        with disk_guard(folder, "nothing was measured"):
            self._lock = acquire(folder / _LOCK, f"another process writes to {folder}; wait for it or set output_dir")
        try:
            self._agree(overwrite)
            self._results = {_key(result): result for result in _load(folder / EPISODES)}
        except BaseException:
            self._lock.release()
            raise

    @property
    def results(self) -> tuple[EpisodeResult, ...]:
        """All results, ordered by intervention and seed."""
        return tuple(self._results[key] for key in sorted(self._results))

    def remaining(self, seeds: Sequence[int], intervention: str = "none") -> list[int]:
        """The seeds without a result."""
        return [seed for seed in seeds if (intervention, seed) not in self._results]

    def append(self, result: EpisodeResult) -> None:
        """Save a result; it is durable once this returns."""
        line = json.dumps(result.to_dict(), allow_nan=False) + "\n"
        path = self.folder / EPISODES
        with disk_guard(self.folder, f"the result of seed {result.seed} was not saved"), path.open("ab") as file:
            file.write(line.encode())
            file.flush()
            os.fsync(file.fileno())
        self._results[_key(result)] = result

    def part(self, name: str, measure: Callable[[], Any]) -> Any:
        """A JSON value measured once and kept beside the results."""
        path = self.folder / "parts" / f"{name}.json"
        if not path.exists():
            self.write(f"parts/{name}.json", measure())
        return read_json(path)

    def write(self, name: str, value: Any) -> None:
        """Replace a JSON file of the folder durably."""
        with disk_guard(self.folder, f"{name} was not saved"):
            write_json(self.folder / name, value)

    def _agree(self, overwrite: bool) -> None:
        """Make sure that what is in the folder belongs to this configuration."""
        path = self.folder / CONFIG
        unknown = {} if (self.folder / EPISODES).exists() else None
        found = read_json(path) if path.exists() else unknown
        mine = json.loads(json.dumps(self.configuration))
        if found == mine:
            return
        if found is not None and not overwrite:
            differences = [
                f"{key}: there {found.get(key)!r}, now {mine.get(key)!r}"
                for key in sorted({*found, *mine})
                if found.get(key) != mine.get(key)
            ]
            raise RobomemError(
                f"{self.folder} holds results of another configuration ({'; '.join(differences)}); "
                "set another output_dir, or overwrite=true to drop them"
            )
        for entry in self.folder.iterdir():
            if found is not None and entry.name != _LOCK:
                shutil.rmtree(entry) if entry.is_dir() else entry.unlink()
        self.write(CONFIG, mine)

    def __enter__(self) -> Self:
        """The log."""
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        """Let other processes in."""
        self._lock.release()


def load_results(folder: Path) -> tuple[EpisodeResult, ...]:
    """The results in a folder, for reading only."""
    return tuple(_parse(folder / EPISODES, (folder / EPISODES).read_bytes()))


def _key(result: EpisodeResult) -> tuple[str, int]:
    return result.intervention, result.seed


def _load(path: Path) -> list[EpisodeResult]:
    """Results of a file whose torn last line is cut off."""
    if not path.exists():
        return []
    data = path.read_bytes()
    whole = data.rfind(b"\n") + 1
    if whole < len(data):
        with path.open("r+b") as file:
            file.truncate(whole)
            os.fsync(file.fileno())
    return _parse(path, data[:whole])


def _parse(path: Path, data: bytes) -> list[EpisodeResult]:
    results = []
    for number, line in enumerate(data.splitlines(), start=1):
        try:
            results.append(EpisodeResult.from_dict(json.loads(line)))
        except (ValueError, KeyError, TypeError) as error:
            raise RobomemError(f"line {number} of {path} is damaged ({error}); remove it and run again") from error
    return results
