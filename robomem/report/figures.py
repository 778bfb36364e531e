"""The charts of the report."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import FixedLocator, LogLocator, MaxNLocator, NullFormatter

from robomem.report.model import Interval, Retained
from robomem.report.svg import GRID, INK, MUTED, SERIES, STRIPE, SURFACE, Drawing, canvas, drawing, style

WIDTH, LINES_WIDTH = 300, 250
"""Points; a chart fills a column of the page on a desk and the whole width of a phone."""
POINTS = 240
"""Most points of a drawn line."""
MOST_DOTS = 16
"""A line of more points shows no dots."""


@dataclass(frozen=True)
class Row:
    """A named proportion."""

    label: str
    interval: Interval
    series: str


@dataclass(frozen=True)
class Line:
    """A named sequence of (x, y)."""

    label: str
    points: Sequence[tuple[float, float]]
    series: str


def forest(name: str, title: str, rows: Sequence[Row], chance: float | None = None) -> Drawing:
    """A dot and a 95% interval per row, between 0 and 1."""
    with style():
        figure, axes = canvas(WIDTH, 35 * len(rows) + 4)
        for index, row in enumerate(rows):
            _forest_row(axes, len(rows) - 1 - index, row)
        if chance is not None:
            axes.axvline(chance, color=MUTED, linewidth=1, linestyle=(0, (2, 2)), zorder=1)
            axes.annotate("chance", (chance, 1), xycoords=("data", "axes fraction"), xytext=(0, 3), **_NOTE)
        axes.set(xlim=(0, 1), ylim=(-0.45, len(rows) - 0.2), yticks=[], xticks=[0, 0.25, 0.5, 0.75, 1])
        axes.set_xticklabels(["0", "0.25", "0.5", "0.75", "1"])
        axes.spines["left"].set_visible(False)
        told = "; ".join(
            f"{r.label} {r.interval.rate:.2f} ({r.interval.low:.2f} to {r.interval.high:.2f})" for r in rows
        )
        return drawing(figure, name, title, f"{title}, with 95% intervals: {told}")


_NOTE = {"textcoords": "offset points", "ha": "center", "va": "bottom", "fontsize": 10, "color": MUTED}


def _forest_row(axes: Axes, y: int, row: Row) -> None:
    colour, found = SERIES[row.series], row.interval
    axes.plot([0, 1], [y, y], color=STRIPE, linewidth=6, zorder=0, solid_capstyle="butt")
    axes.plot([found.low, found.high], [y, y], color=colour, linewidth=6, alpha=0.38, zorder=2)
    edge = {"markeredgecolor": SURFACE, "markeredgewidth": 1.5}
    axes.plot([found.rate], [y], "o", color=colour, markersize=9, zorder=3, clip_on=False, **edge)
    axes.annotate(_short(row.label), (0, y), xytext=(0, 7), textcoords="offset points", fontsize=11, va="bottom")
    axes.annotate(
        f"{found.rate:.2f}", (1, y), xytext=(0, 7), textcoords="offset points", fontsize=11, ha="right", va="bottom",
        fontweight="bold",
    )  # fmt: skip


def lines(name: str, title: str, series: Sequence[Line], xlabel: str) -> Drawing:
    """Lines over training steps, on a logarithmic axis where the values span more than a decade."""
    with style():
        figure, axes = canvas(LINES_WIDTH, 140)
        for line in series:
            points = np.array([p for p in line.points if math.isfinite(p[1])], float).reshape(-1, 2)
            colour = SERIES[line.series]
            axes.plot(*_thin(points, POINTS).T, color=colour, linewidth=0.9, alpha=0.35)
            axes.plot(*_thin(_smooth(points), POINTS).T, color=colour)
        values = np.array([y for line in series for _, y in line.points if math.isfinite(y)])
        if len(values) and values.min() > 0 and values.max() > 12 * values.min():
            axes.set_yscale("log")
            wide = values.max() > 100 * values.min()
            axes.yaxis.set_major_locator(LogLocator(subs=(1,) if wide else (1, 2, 5), numticks=6))
            axes.yaxis.set_minor_formatter(NullFormatter())
        else:
            axes.yaxis.set_major_locator(MaxNLocator(5))
        axes.xaxis.set_major_locator(MaxNLocator(5, integer=True))
        axes.yaxis.set_major_formatter(_plain)
        axes.grid(axis="y")
        axes.spines["left"].set_visible(False)
        axes.set_xlabel(xlabel)
        axes.margins(x=0.01)
        told = "; ".join(f"{line.label} from {_ends(line)}" for line in series if line.points)
        return drawing(figure, name, title, f"{title} over training: {told}")


def _ends(line: Line) -> str:
    return f"{line.points[0][1]:.3g} to {line.points[-1][1]:.3g}"


def _plain(value: float, _: object) -> str:
    if value == 0 or 1e-3 <= abs(value) < 1e5:
        return f"{value:g}"
    mantissa, _, exponent = f"{value:.1e}".partition("e")
    return f"{mantissa.removesuffix('.0')}e{int(exponent)}"


def _thin(points: np.ndarray, most: int) -> np.ndarray:
    """Means of equally many neighbours, so that a long line stays a small picture."""
    if len(points) <= most:
        return points
    return np.stack([chunk.mean(0) for chunk in np.array_split(points, most)])


def _smooth(points: np.ndarray) -> np.ndarray:
    """Centred moving average over a fortieth of the line."""
    half = len(points) // 80
    if not half:
        return points
    total = np.cumsum(np.insert(points[:, 1], 0, 0.0))
    index = np.arange(len(points))
    low, high = np.maximum(index - half, 0), np.minimum(index + half + 1, len(points))
    return np.stack([points[:, 0], (total[high] - total[low]) / (high - low)], axis=1)


def retention(name: str, title: str, series: Sequence[tuple[str, str, Sequence[Retained]]]) -> Drawing:
    """Accuracy of reading the cue over the ticks since it was shown; series are (label, colour, points)."""
    with style():
        figure, axes = canvas(WIDTH, 170)
        for _, colour, points in series:
            ticks = [p.ticks for p in points]
            band = {"color": SERIES[colour], "alpha": 0.18, "linewidth": 0}
            axes.fill_between(ticks, [p.low for p in points], [p.high for p in points], **band)
            marker = "o" if len(points) <= MOST_DOTS else None
            axes.plot(ticks, [p.accuracy for p in points], marker=marker, color=SERIES[colour], markersize=3.5)
        _references(axes, series[0][2])
        axes.set(ylim=(0, 1.03), xlabel="control ticks since the cue", yticks=[0, 0.25, 0.5, 0.75, 1])
        axes.set_yticklabels(["0", "0.25", "0.5", "0.75", "1"])
        axes.xaxis.set_major_locator(MaxNLocator(6, integer=True))
        axes.grid(axis="y")
        axes.spines["left"].set_visible(False)
        told = "; ".join(
            f"{label}: " + ", ".join(f"{p.accuracy:.2f} at {p.ticks}" for p in points) for label, _, points in series
        )
        return drawing(figure, name, title, f"{title}: accuracy of reading it by ticks since it was shown, {told}")


def _references(axes: Axes, points: Sequence[Retained]) -> None:
    """What needs no memory: guessing (dashed), and the newest observation (thin)."""
    ticks = [p.ticks for p in points]
    axes.plot(ticks, [p.chance for p in points], color=MUTED, linewidth=1, linestyle=(0, (2, 2)))
    seen = [(p.ticks, p.from_observation) for p in points if p.from_observation is not None]
    axes.plot([tick for tick, _ in seen], [accuracy for _, accuracy in seen], color=MUTED, linewidth=1.1)


def bars(name: str, title: str, values: Sequence[tuple[str, float]], series: str, log: bool = False) -> Drawing:
    """A horizontal bar per label; on a logarithmic axis zero shows as no bar."""
    with style():
        figure, axes = canvas(WIDTH, 27 * len(values) + 4)
        positive = [v for _, v in values if v > 0]
        left = 10 ** (math.floor(math.log10(min(positive))) - 1) if log and positive else 0
        right = max(positive, default=1.0)
        for index, (label, value) in enumerate(values):
            y = len(values) - 1 - index
            axes.plot([left, right], [y, y], color=STRIPE, linewidth=5, solid_capstyle="butt")
            if value > 0:
                axes.plot([left, value], [y, y], color=SERIES[series], linewidth=5, solid_capstyle="butt")
            note = {
                "xycoords": ("axes fraction", "data"),
                "textcoords": "offset points",
                "va": "bottom",
                "fontsize": 10,
            }
            axes.annotate(_short(label), (0, y), xytext=(0, 4), **note)
            axes.annotate(f"{value:.2g}", (1, y), xytext=(0, 4), ha="right", color=MUTED, **note)
        axes.set(ylim=(-0.4, len(values) - 0.1), yticks=[], xlim=(left, right))
        if log and positive:
            axes.set_xscale("log")
            axes.xaxis.set_major_locator(LogLocator(numticks=6))
        axes.xaxis.set_minor_locator(FixedLocator([]))
        axes.xaxis.set_major_formatter(_plain)
        axes.spines["left"].set_visible(False)
        told = "; ".join(f"{label} {value:.3g}" for label, value in values)
        return drawing(figure, name, title, f"{title}: {told}")


def _short(text: str, most: int = 36) -> str:
    return text if len(text) <= most else f"…{text[1 - most :]}"


def frame(axes: Axes, ylabel: str) -> None:
    """Give a panel of the episode figure its name and a quiet frame."""
    axes.set_ylabel(ylabel, rotation=0, ha="right", va="center", labelpad=8, color=INK)
    axes.spines["left"].set_color(GRID)
