"""The commands that make each part of a report."""

import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

BASELINES = ("oracle", "sweep")
"""Policies that are evaluated by name, without a checkpoint."""


def train(run: Path, overrides: Sequence[str] = ()) -> str:
    """Train a run, from the overrides it was first made with."""
    return _join("train", *_without(overrides, "run_dir", "resume"), f"run_dir={run}")


def train_control(overrides: Sequence[str]) -> str:
    """Train the memoryless control of a run that was made with some overrides."""
    return _join("train", *_without(overrides, "run_dir", "resume", "policy", "memory", "name"), "policy=memoryless")


def evaluate(run: Path, env_id: str, policy: str = "") -> str:
    """Evaluate a run, or a baseline by its name, on a task."""
    what = f"policy={policy}" if policy in BASELINES else f"checkpoint={run}"
    return _join("eval", what, f"sim.env_id={env_id}")


def audit(run: Path, env_id: str, config: Mapping[str, Any] | None = None) -> str:
    """Audit a run on a task, with the dataset that its configuration names."""
    data = (config or {}).get("data")
    dataset = data.get("root") if isinstance(data, Mapping) else None
    return _join("audit", f"checkpoint={run}", f"dataset={dataset or 'DATASET'}", f"sim.env_id={env_id}")


def report(runs: Sequence[Path]) -> str:
    """Make this report."""
    return _join("report", *(str(run) for run in runs))


def _without(overrides: Sequence[str], *keys: str) -> list[str]:
    return [override for override in overrides if override.split("=")[0].lstrip("+~") not in keys]


def _join(*words: str) -> str:
    return shlex.join(("robomem", *words))
