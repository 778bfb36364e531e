"""Values as the text of the page."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import robomem
from robomem.report.model import Interval, Run
from robomem.report.results import Task

NOTHING = "–"


def heading(env_ids: Sequence[str]) -> str:
    """The title of a page about some tasks."""
    return f"Memory on {', '.join(env_ids)}" if env_ids else "RoboMem report"


def facts(runs: Sequence[Run], tasks: Sequence[Task]) -> Mapping[str, str]:
    """What was run, as label and text."""
    evaluations = [result.evaluation for task in tasks for result in task.results if result.evaluation]
    versions = {name: version for e in evaluations for name, version in e.versions.items()}
    git = [run.git for run in runs if run.git and run.git.sha]
    told = {
        "Runs": ", ".join(run.name for run in runs),
        "Seeds": _unique(
            f"{e.start_seed} to {e.start_seed + e.episodes - 1} ({e.episodes} episodes)" for e in evaluations
        ),
        "Simulation": _unique(f"{e.backend} physics, {e.render} render" for e in evaluations if e.render != "none"),
        "Source": _unique(f"{g.sha[:10]}{' with local changes' if g.dirty else ''}" for g in git),
        "Versions": ", ".join(
            f"{name} {version}" for name, version in ({"robomem": robomem.__version__} | versions).items()
        ),
    }
    return {label: text for label, text in told.items() if text}


def rate(value: float) -> str:
    """A proportion with two decimals."""
    return f"{value:.2f}"


def bounds(interval: Interval) -> str:
    """The ends of an interval."""
    return f"{interval.low:.2f} to {interval.high:.2f}"


def number(value: float | None, digits: int = 2) -> str:
    """A number with fixed decimals, a dash for None."""
    return NOTHING if value is None else f"{value:,.{digits}f}"


def significant(value: float | None) -> str:
    """A number with three significant digits, a dash for None."""
    return NOTHING if value is None else f"{value:.3g}"


def probability(value: float) -> str:
    """A p-value with its relation sign."""
    return "< 0.0001" if value < 1e-4 else f"= {value:.2g}"


def signed(value: float) -> str:
    """A difference with its sign, a true minus."""
    return f"{value:+.2f}".replace("-", "−")


def duration(seconds: float | None) -> str:
    """A time span in its natural unit."""
    if seconds is None:
        return NOTHING
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"


def _unique(texts: Any) -> str:
    return "; ".join(dict.fromkeys(texts))


FILTERS: Mapping[str, Callable[..., str]] = {
    "rate": rate,
    "bounds": bounds,
    "number": number,
    "significant": significant,
    "probability": probability,
    "signed": signed,
    "duration": duration,
}
