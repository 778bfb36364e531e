"""What the page shows of the audits on one task."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from robomem.report import commands, figures
from robomem.report.media import load_frames
from robomem.report.model import Audit, Run
from robomem.report.results import missing
from robomem.report.svg import Drawing
from robomem.report.timeline import peak, timeline

INTERVENTIONS = {
    "none": "memory intact",
    "zero": "memory emptied at every step",
    "shuffle": "memory drawn anew at every step",
    "freeze": "memory frozen after the first step",
    "swap": "memory of another episode",
}
MARKS = {"uses memory": "good", "does not use memory": "bad"}
MOST_BARS = 14


@dataclass(frozen=True)
class AuditView:
    """An audit with its charts; without an audit, how far it is and the command that makes it."""

    run: Run
    series: str
    state: str
    command: str
    audit: Audit | None = None
    mark: str = ""
    """`good`, `bad` or `unsure`."""
    charts: Mapping[str, Drawing] = field(default_factory=dict)
    """`success`, `change`, `gradients` and `retention`, where the audit has them."""
    timeline: Drawing | None = None
    has_frames: bool = False
    peak: float = 0.0


@dataclass(frozen=True)
class Audits:
    """The audits on one task."""

    views: tuple[AuditView, ...]
    retention: Drawing | None
    """Of all runs in one chart, where there are several."""


def build_audits(key: str, env_id: str, runs: Sequence[Run], series: Mapping[str, str]) -> Audits:
    """The audit of each memory policy, and of other runs that have one; `key` is unique on the page."""
    picked = [run for run in runs if run.kind == "memory" or env_id in run.audits]
    views = tuple(_view(f"{key}-audit{i}", env_id, run, series[run.name]) for i, run in enumerate(picked))
    kept = [(v.run.name, v.series, v.audit.retention) for v in views if v.audit and v.audit.retention]
    together = figures.retention(f"{key}-retention", "How long each keeps the cue", kept) if len(kept) > 1 else None
    return Audits(views, together)


def _view(key: str, env_id: str, run: Run, series: str) -> AuditView:
    audit = run.audits.get(env_id)
    if audit is None:
        state, command = missing(run.unfinished_audits.get(env_id), commands.audit(run.path, env_id, run.config))
        return AuditView(run, series, state, command)
    drawn, has_frames = _timeline(f"{key}-trace", audit, run, series)
    return AuditView(
        run,
        series,
        "finished",
        audit.command,
        audit,
        mark=MARKS.get(audit.verdict, "unsure"),
        charts=_charts(key, audit, run, series),
        timeline=drawn,
        has_frames=has_frames,
        peak=peak(audit.trace) if audit.trace else 0.0,
    )


def _charts(key: str, audit: Audit, run: Run, series: str) -> Mapping[str, Drawing]:
    rows = [figures.Row(INTERVENTIONS.get(i.name, i.name), i.success_once, series) for i in audit.interventions]
    changes = [(INTERVENTIONS.get(i.name, i.name), i.action_change) for i in audit.interventions if i.name != "none"]
    modules = gradients_by_module(audit.gradients)
    charts: dict[str, Drawing] = {}
    if rows:
        charts["success"] = figures.forest(f"{key}-success", "Success under each intervention", rows)
    if changes:
        charts["change"] = figures.bars(f"{key}-change", "Change of the planned action", changes, series)
    if modules:
        charts["gradients"] = figures.bars(f"{key}-grad", "Gradient reaching the memory", modules, series, log=True)
    if audit.retention:
        kept = [(run.name, series, audit.retention)]
        charts["retention"] = figures.retention(f"{key}-retention", "How long the cue is kept", kept)
    return charts


def gradients_by_module(gradients: Mapping[str, float]) -> list[tuple[str, float]]:
    """Norms joined by module, the largest first; of many, the largest and the smallest halves of `MOST_BARS`."""
    squares: dict[str, float] = {}
    for name, norm in gradients.items():
        module = name.rpartition(".")[0] or name
        squares[module] = squares.get(module, 0.0) + norm**2
    norms = sorted(((name, math.sqrt(square)) for name, square in squares.items()), key=lambda pair: -pair[1])
    half = MOST_BARS // 2
    return norms if len(norms) <= MOST_BARS else norms[:half] + norms[-half:]


def _timeline(key: str, audit: Audit, run: Run, series: str) -> tuple[Drawing | None, bool]:
    trace = audit.trace
    if trace is None or not trace.ticks or not (trace.attention or trace.gate):
        return None, False
    ticks = [tick for tick in trace.ticks if tick in audit.frames]
    fix = f"delete {audit.path} and audit again: {audit.command}"
    cameras = load_frames([audit.frames[tick] for tick in ticks], run.cameras, fix) if ticks else {}
    return timeline(key, trace, ticks, cameras, series), bool(cameras)
