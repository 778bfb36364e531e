"""The folder of a run: one process at a time, its record, its checkpoints."""

import shutil
import subprocess
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any

from omegaconf import OmegaConf
from yaml import YAMLError

from robomem.checkpoint import FOLDER, list_checkpoints, steps_of
from robomem.config import CheckpointsConfig, TrainConfig, typed_node
from robomem.errors import RobomemError
from robomem.files import acquire, atomic_folder, disk_guard, sync, write_atomic, write_json

CONFIG, OVERRIDES, GIT, METRICS = "config.yaml", "overrides.yaml", "git.json", "metrics.jsonl"
CHANGEABLE = ("max_steps", "max_minutes", "device", "tracker", "checkpoints", "data.cache_gib")
"""Settings that may differ when a run goes on."""
_ELSEWHERE = ("name", "run_dir", "resume", "paths")
"""Settings that say where the run is, not what it is."""
_LAST = "last"
_SHOWN = 3
"""Differences that a message names."""


class RunFolder:
    """A run on disk."""

    def __init__(self, path: Path) -> None:
        """Name the folder; nothing is written yet."""
        self.path = path

    @property
    def newest(self) -> Path | None:
        """The newest complete checkpoint."""
        checkpoints = list_checkpoints(self.path)
        return checkpoints[-1] if checkpoints else None

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Keep other processes from training here, and remove what a killed one has left half written.

        Raises:
            RobomemError: another process trains here.
        """
        busy = f"another process trains in {self.path}; wait for it, or start another run with name=..."
        with disk_guard(self.path, "the run was not started"):
            lock = acquire(self.path / ".lock", busy)
        try:
            for rest in (self.path / FOLDER).glob("*.tmp"):
                shutil.rmtree(rest) if rest.is_dir() and not rest.is_symlink() else rest.unlink()
            yield
        finally:
            lock.release()

    def record(self, config: TrainConfig, overrides: Sequence[str]) -> None:
        """Write down what runs: the configuration, what was said on the command line, and the state of the code.

        Raises:
            RobomemError: the run has checkpoints that were made with other settings; the first of them are named.
        """
        values = asdict(config)
        if self.newest:
            self._refuse_changes(values)
        with disk_guard(self.path, "the run was not started"):
            write_atomic(self.path / CONFIG, OmegaConf.to_yaml(OmegaConf.create(values)).encode())
            write_atomic(self.path / OVERRIDES, OmegaConf.to_yaml(OmegaConf.create(list(overrides))).encode())
            write_json(self.path / GIT, git_state(Path(__file__).resolve().parent))

    def save_checkpoint(self, step: int, write: Callable[[Path], None], config: CheckpointsConfig) -> Path:
        """Write a checkpoint, wholly or not at all, and remove those that are not to stay.

        Args:
            step: Steps done.
            write: Fills the folder.
            config: Which checkpoints stay.

        Raises:
            RobomemError: the disk is full; the checkpoints before are intact.
        """
        path = self.path / FOLDER / f"step-{step:08d}"
        with disk_guard(self.path, f"the checkpoint of step {step} was not saved"):
            with atomic_folder(path) as folder:
                write(folder)
            self._point_to(path)
        for old in list_checkpoints(self.path)[: -config.keep_last]:
            if not config.keep_every or steps_of(old) % config.keep_every:
                shutil.rmtree(old.rename(old.with_name(old.name + ".tmp")))
        return path

    def _point_to(self, checkpoint: Path) -> None:
        """Let the link `last` name a checkpoint."""
        link = self.path / FOLDER / f"{_LAST}.tmp"
        link.unlink(missing_ok=True)
        link.symlink_to(checkpoint.name)
        link.replace(link.with_name(_LAST))
        sync(link.parent)

    def _refuse_changes(self, values: Mapping[str, Any]) -> None:
        recorded, now = _flatten(read_config(self.path)), _flatten(values)
        # A setting that was not known when the run began had the value that is its default now.
        saved = _flatten(OmegaConf.to_container(typed_node(TrainConfig))) | recorded
        free = (*CHANGEABLE, *_ELSEWHERE)
        differences = [
            f"{key}: there {saved.get(key)!r}, now {now.get(key)!r}"
            for key in sorted({*recorded, *now})
            if saved.get(key) != now.get(key) and not is_part_of(key, free)
        ]
        if differences:
            more = f"; and {len(differences) - _SHOWN} more" if len(differences) > _SHOWN else ""
            raise RobomemError(
                f"{self.path} is a run with other settings ({'; '.join(differences[:_SHOWN])}{more}); "
                "start another run with name=..., or go on with that one's settings: "
                f"resume={self.path}"
            )


def read_config(run_dir: Path) -> dict[str, Any]:
    """The configuration that a run was last started with.

    Raises:
        RobomemError: no run there, or its file is damaged.
    """
    path = run_dir / CONFIG
    try:
        config: Any = OmegaConf.to_container(OmegaConf.load(path))
    except FileNotFoundError as error:
        raise RobomemError(f"{run_dir} is no run of `robomem train`: it has no {CONFIG}") from error
    except (YAMLError, ValueError, OSError) as error:
        raise RobomemError(f"{path} is damaged ({error}); copy it again, or start another run") from error
    return config


def is_part_of(key: str, settings: Sequence[str]) -> bool:
    """Whether a dotted key is one of some settings or lies within one."""
    return any(key == setting or key.startswith(f"{setting}.") for setting in settings)


def git_state(folder: Path) -> dict[str, Any]:
    """Commit, cleanliness and local changes of the repository that holds a folder; nulls where there is none."""

    def git(*arguments: str) -> str | None:
        try:
            done = subprocess.run(["git", "-C", str(folder), *arguments], capture_output=True, timeout=60, check=True)
        except (OSError, subprocess.SubprocessError):
            return None
        return done.stdout.decode(errors="replace")

    sha, status, diff = git("rev-parse", "HEAD"), git("status", "--porcelain"), git("diff", "HEAD")
    return {"sha": sha and sha.strip(), "dirty": None if status is None else bool(status), "diff": diff}


def _flatten(values: Any, prefix: str = "") -> dict[str, Any]:
    """Leaves of nested mappings by dotted key."""
    if not isinstance(values, Mapping) or not values:
        return {prefix: values}
    parts = [_flatten(value, f"{prefix}.{key}" if prefix else str(key)) for key, value in values.items()]
    return {key: value for part in parts for key, value in part.items()}
