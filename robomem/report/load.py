"""Read run directories."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from robomem.errors import RobomemError
from robomem.report import commands
from robomem.report.files import read_json, read_lines, read_yaml
from robomem.report.load_audit import load_audits, load_unfinished_audits
from robomem.report.load_evaluation import load_evaluations, load_unfinished_evaluations
from robomem.report.model import Camera, Git, Run

Metrics = Mapping[str, tuple[tuple[int, float], ...]]


def load_runs(paths: Sequence[Path]) -> tuple[Run, ...]:
    """Read run directories and make their names unique.

    Raises:
        RobomemError: a directory is not a run, or a file in it is corrupt.
    """
    unique = {path.resolve(): path for path in paths}
    runs = [load_run(path) for path in unique.values()]
    names = [run.name for run in runs]
    return tuple(
        run if names.count(run.name) == 1 else replace(run, name=f"{run.path.resolve().parent.name}/{run.name}")
        for run in runs
    )


def load_run(path: Path) -> Run:
    """Read a training run, or a directory that holds evaluations only; what is missing stays empty.

    Raises:
        RobomemError: the directory is not a run, or a file in it is corrupt.
    """
    if not path.is_dir():
        raise RobomemError(f"{path} is not a directory; name the directory of a training run or of an evaluation")
    overrides = _overrides(path)
    config = _config(path, commands.train(path, overrides))
    evaluations, unfinished = load_evaluations(path), load_unfinished_evaluations(path)
    if not (config or evaluations or unfinished):
        raise RobomemError(f"{path} has no config.yaml and no summary.json; name a training run or an evaluation")
    memory = memory_name(config.get("policy"))
    return Run(
        path=path,
        name=path.resolve().name if config else next(iter((*evaluations.values(), *unfinished.values()))).policy,
        kind="baseline" if not config else "memoryless" if memory == "none" else "memory",
        memory=memory if config else "",
        cameras=_cameras(path),
        config=config,
        overrides=overrides,
        git=_git(path / "git.json"),
        metrics=_metrics(path / "metrics.jsonl", commands.train(path, overrides)),
        evaluations=evaluations,
        audits=load_audits(path, config),
        unfinished_evaluations=unfinished,
        unfinished_audits=load_unfinished_audits(path, config),
    )


def memory_name(policy: Any) -> str:
    """The memory module of a policy's configuration, `none` for a memoryless one."""
    memory = policy.get("memory") if isinstance(policy, Mapping) else None
    target = memory.get("_target_") if isinstance(memory, Mapping) else memory
    parts = str(target or "none").split(".")
    return parts[-2] if len(parts) > 1 else parts[0]


def _config(run: Path, command: str) -> Mapping[str, Any]:
    path = run / "config.yaml"
    return read_yaml(path, f"restore it, or train again: {command}").mapping() if path.exists() else {}


def _cameras(run: Path) -> tuple[Camera, ...]:
    specs = sorted(run.glob("checkpoints/step-*/spec.json"))
    if not specs:
        return ()
    node = read_json(specs[-1], f"delete the checkpoint {specs[-1].parent}")
    return tuple(
        Camera(camera.get("name").text(), camera.get("height").whole(), camera.get("width").whole())
        for camera in node.get("cameras").rows()
    )


def _overrides(run: Path) -> tuple[str, ...]:
    path = run / "overrides.yaml"
    if not path.exists():
        return ()
    return tuple(row.text() for row in read_yaml(path, "restore it as a list of key=value, or delete it").rows())


def _git(path: Path) -> Git | None:
    if not path.exists():
        return None
    node = read_json(path, "restore or delete it")
    sha, dirty, diff = node.find("sha"), node.find("dirty"), node.find("diff")
    return Git(sha.text() if sha else "", dirty.flag() if dirty else None, diff.text() if diff else "")


def _metrics(path: Path, command: str) -> Metrics:
    series: dict[str, dict[int, float]] = {}
    for line in read_lines(path, f"delete that line, or train again: {command}") if path.exists() else ():
        step = line.get("step").whole()
        for key, node in line.items():
            if key != "step" and node.value is not None:
                # A resumed run logs the steps after its checkpoint again; the later line counts.
                series.setdefault(key, {})[step] = node.any_number()
    return {key: tuple(sorted(values.items())) for key, values in series.items()}
