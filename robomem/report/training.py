"""What the page shows of training."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from robomem.report import commands, figures
from robomem.report.model import Run
from robomem.report.svg import Drawing

TITLES = {
    "loss": "Loss",
    "grad_norm": "Gradient norm",
    "lr": "Learning rate",
    "frames_per_s": "Frames per second",
}


@dataclass(frozen=True)
class Summary:
    """How a run was trained."""

    run: Run
    series: str
    steps: int
    seconds: float | None
    first_loss: float | None
    last_loss: float | None
    command: str
    """What trains it when it is not trained."""


def curves(runs: Sequence[Run], series: Mapping[str, str]) -> tuple[Drawing, ...]:
    """Draw the loss, its terms, then what else is logged."""
    logged = {key for run in runs for key in run.metrics if key != "time_s"}
    order = sorted(logged, key=lambda key: (key != "loss", not key.startswith("loss/"), key))
    drawn = []
    for index, key in enumerate(order):
        lines = [figures.Line(r.name, r.metrics[key], series[r.name]) for r in runs if key in r.metrics]
        term = key.removeprefix("loss/")
        title = TITLES.get(key, f"Loss: {term}" if term != key else key)
        drawn.append(figures.lines(f"curve-{index}", title, lines, "training step"))
    return tuple(drawn)


def summaries(runs: Sequence[Run], series: Mapping[str, str]) -> tuple[Summary, ...]:
    """How each trained run was trained."""
    return tuple(_summary(run, series[run.name]) for run in runs if run.trained)


def _summary(run: Run, series: str) -> Summary:
    losses = [value for _, value in run.metrics.get("loss", ())]
    steps = max((points[-1][0] for points in run.metrics.values() if points), default=0)
    times = run.metrics.get("time_s", ())
    return Summary(
        run=run,
        series=series,
        steps=steps,
        seconds=times[-1][1] if times else None,
        first_loss=losses[0] if losses else None,
        last_loss=losses[-1] if losses else None,
        command=commands.train(run.path, run.overrides),
    )
