"""Assemble the page."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

import yaml
from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from robomem.files import disk_guard, write_atomic
from robomem.report import commands, present
from robomem.report.audits import INTERVENTIONS, build_audits
from robomem.report.load import load_runs
from robomem.report.model import Run
from robomem.report.results import OUTCOMES, build_task
from robomem.report.training import curves, summaries


def write_report(runs: Sequence[Path], output: Path, title: str = "") -> Path:
    """Write the report of some runs as one self-contained HTML file.

    Args:
        runs: Directories of training runs, or of evaluations only.
        output: The file to write.
        title: Heading; by default the task's name.

    Raises:
        RobomemError: a directory is not a run, a file in it is corrupt, or the page cannot be written.
    """
    html = render(load_runs(runs), title)
    with disk_guard(output, "the report was not saved"):
        write_atomic(output, html.encode())
    return output


def render(runs: Sequence[Run], title: str = "") -> str:
    """The page as HTML."""
    series = assign_series(runs)
    tried = ((r.evaluations, r.unfinished_evaluations, r.audits, r.unfinished_audits) for r in runs)
    env_ids = sorted({env_id for kinds in tried for kind in kinds for env_id in kind})
    tasks = [build_task(f"task{i}", env_id, runs, series) for i, env_id in enumerate(env_ids)]
    audits = {e: build_audits(f"task{i}", e, runs, series) for i, e in enumerate(env_ids)}
    return _environment().get_template("report.html.j2").render(
        title=title or present.heading(env_ids),
        made=datetime.now(UTC),
        runs=runs,
        series=series,
        tasks=tasks,
        audits=audits,
        training=summaries(runs, series),
        curves=curves(runs, series),
        facts=present.facts(runs, tasks),
        overrides=next((run.overrides for run in runs if run.trained), ()),
        lacks_control=not any(run.kind == "memoryless" for run in runs),
        outcomes=OUTCOMES,
        interventions=INTERVENTIONS,
        command=commands,
        css=Markup(_source("report.css")),
    )  # fmt: skip


def assign_series(runs: Sequence[Run]) -> Mapping[str, str]:
    """A colour for each run: memoryless controls and memory policies apart, baselines grey."""
    free = {"memory": ["s1", "s3", "s4", "s5"], "memoryless": ["s2", "s6"], "baseline": ["base"]}
    series = {}
    for run in runs:
        colours = free[run.kind]
        series[run.name] = colours[0]
        colours.append(colours.pop(0))
    return series


def _environment() -> Environment:
    environment = Environment(
        loader=PackageLoader("robomem.report", "."),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    dump = partial(yaml.safe_dump, sort_keys=False, allow_unicode=True)
    filters: Mapping[str, Any] = {**present.FILTERS, "yaml": lambda value: dump(dict(value))}
    environment.filters.update(filters)
    return environment


def _source(name: str) -> str:
    return (Path(__file__).parent / name).read_text(encoding="utf-8")
