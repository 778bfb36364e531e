"""The commands that make each part of a report."""

import shlex
from collections.abc import Mapping, Sequence
from operator import attrgetter
from pathlib import Path
from typing import Any

from robomem.config import AuditConfig, EvalConfig

BASELINES = ("oracle", "sweep")
"""Policies that are evaluated by name, without a checkpoint."""
_SETTINGS = {
    "render": "sim.render",
    "backend": "sim.backend",
    "workers": "sim.workers",
    **{name: name for name in ("episodes", "start_seed", "replan_every", "noise_seed", "donors")},
}
"""What a record's configuration holds, and the setting that says it on the command line."""


def train(run: Path, overrides: Sequence[str] = ()) -> str:
    """Train a run, from the overrides it was first made with."""
    return _join("train", *_without(overrides, "run_dir", "resume"), f"run_dir={run}")


def train_control(overrides: Sequence[str]) -> str:
    """Train the memoryless control of a run that was made with some overrides."""
    return _join("train", *_without(overrides, "run_dir", "resume", "policy", "memory", "name"), "policy=memoryless")


def evaluate(run: Path, env_id: str, folder: Path | None = None, recorded: Mapping[str, Any] | None = None) -> str:
    """Evaluate a run on a task; of an evaluation that was begun, go on with it or repeat it.

    Args:
        run: Its folder, or that of the records alone.
        env_id: The task.
        folder: Of the records.
        recorded: Their configuration; its policy may be a baseline.
    """
    recorded = recorded or {}
    baseline = recorded.get("policy") in BASELINES
    what = f"baseline={recorded['policy']}" if baseline else f"checkpoint={'CHECKPOINT' if folder == run else run}"
    apart = folder and (baseline or folder != run / "eval" / env_id)
    where = [f"output_dir={folder}"] if apart else []
    return _join("eval", what, f"sim.env_id={env_id}", *_told(recorded, EvalConfig(baseline="oracle")), *where)


def audit(
    run: Path, env_id: str, config: Mapping[str, Any] | None = None, recorded: Mapping[str, Any] | None = None
) -> str:
    """Audit a run on a task, with the dataset that its configuration names; `recorded`: see `evaluate`."""
    data = (config or {}).get("data")
    dataset = data.get("root") if isinstance(data, Mapping) else None
    told = _told(recorded or {}, AuditConfig())
    return _join("audit", f"checkpoint={run}", f"dataset={dataset or 'DATASET'}", f"sim.env_id={env_id}", *told)


def report(runs: Sequence[Path]) -> str:
    """Make this report."""
    return _join("report", *(str(run) for run in runs))


def _told(recorded: Mapping[str, Any], default: EvalConfig | AuditConfig) -> list[str]:
    """Recorded settings that are not the default; a baseline, which sees nothing, records that it renders nothing."""
    found = {setting: recorded[key] for key, setting in _SETTINGS.items() if recorded.get(key) not in (None, "none")}
    return [f"{setting}={value}" for setting, value in found.items() if value != attrgetter(setting)(default)]


def _without(overrides: Sequence[str], *keys: str) -> list[str]:
    return [override for override in overrides if override.split("=")[0].lstrip("+~") not in keys]


def _join(*words: str) -> str:
    return shlex.join(("robomem", *words))
