"""The table of an evaluation, as JSON and on the terminal."""

import hashlib
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib import metadata
from typing import Any

import numpy as np
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.table import Table

from robomem.intervals import Proportion, wilson
from robomem.rollout import EpisodeResult

_PACKAGES = ("robomem", "torch", "numpy", "mani_skill", "mikasa-robo-suite", "sapien")


def proportions(results: Sequence[EpisodeResult]) -> dict[str, Proportion | None]:
    """Success at any tick, success at the end, and first choices right among episodes with a choice."""
    chosen = [result.first_choice == 1 for result in results if result.first_choice]
    return {
        "success_once": wilson(sum(result.success_once for result in results), len(results)),
        "success_at_end": wilson(sum(result.success_at_end for result in results), len(results)),
        "first_choice": wilson(sum(chosen), len(chosen)),
    }


def summarise(configuration: Mapping[str, Any], results: Sequence[EpisodeResult]) -> dict[str, Any]:
    """`summary.json`: what was evaluated and what came out of it.

    Args:
        configuration: The values that determine the results; they lead the summary.
        results: At least one.
    """
    candidates = results[0].candidates
    return {
        **configuration,
        "instruction": " / ".join(dict.fromkeys(result.instruction for result in results)),
        "chance": 1 / candidates if candidates else None,
        "episodes": len(results),
        **{name: value and value.to_dict() for name, value in proportions(results).items()},
        "mean_return": float(np.mean([result.total_reward for result in results])),
        "mean_steps": float(np.mean([result.steps for result in results])),
        "latency_ms": {**_latency("observe", results), **_latency("plan", results)},
        "versions": versions(),
        "deterministic_digest": digest(results),
    }


def digest(results: Sequence[EpisodeResult]) -> str:
    """Hash of everything but the latencies: equal for equal results."""
    outcomes = sorted(json.dumps(result.outcome(), sort_keys=True) for result in results)
    return hashlib.sha256("\n".join(outcomes).encode()).hexdigest()


def versions() -> dict[str, str]:
    """Versions of the installed packages that results depend on."""
    found = {}
    for name in _PACKAGES:
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return found


def table(summary: Mapping[str, Any]) -> Table:
    """The summary for the terminal."""
    view = Table(title=f"{summary['policy']} on {summary['env_id']}, {summary['episodes']} episodes", min_width=60)
    for heading in ("", "value", "95 % interval"):
        view.add_column(heading)
    for name in ("success_once", "success_at_end", "first_choice"):
        value = summary[name]
        view.add_row(name, *_cells(value))
    view.add_row("mean return", f"{summary['mean_return']:.3f}", "")
    view.add_row("mean steps", f"{summary['mean_steps']:.1f}", "")
    for name, value in summary["latency_ms"].items():
        if value is not None:
            view.add_row(f"{name} (ms)", f"{value:.1f}", "")
    return view


@contextmanager
def progress(title: str, total: int, done: Sequence[EpisodeResult] = ()) -> Iterator[Callable[[EpisodeResult], None]]:
    """A progress bar over episodes with the success so far; call what it gives with each new result."""
    columns = (BarColumn(), MofNCompleteColumn(), TextColumn("success {task.fields[success]}"))
    columns = (TextColumn("{task.description}"), *columns, TimeElapsedColumn(), TimeRemainingColumn())
    results = list(done)

    def success() -> str:
        return f"{sum(r.success_once for r in results)}/{len(results)}"

    with Progress(*columns) as bar:
        task = bar.add_task(title, total=total, completed=len(results), success=success())

        def advance(result: EpisodeResult) -> None:
            results.append(result)
            bar.update(task, advance=1, success=success())

        yield advance


def _cells(value: Mapping[str, Any] | None) -> tuple[str, str]:
    if value is None:
        return "-", "no choice made"
    return f"{value['rate']:.2f} ({value['count']}/{value['episodes']})", f"{value['low']:.2f} to {value['high']:.2f}"


def _latency(kind: str, results: Sequence[EpisodeResult]) -> dict[str, float | None]:
    values = [x for result in results for x in (result.observe_ms if kind == "observe" else result.plan_ms)]
    return {f"{kind}_p{p}": float(np.percentile(values, p)) if values else None for p in (50, 99)}
