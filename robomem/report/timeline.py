"""The figure of one episode: what the cameras saw and what the memory read, tick by tick."""

from collections.abc import Mapping, Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from robomem.report.figures import frame
from robomem.report.model import Trace
from robomem.report.svg import SERIES, SURFACE, Drawing, drawing, style

WIDTH = 760
"""Points; on a phone the figure scrolls sideways."""
FRAMES = 12
"""Most frames of a strip."""
COLUMNS = 96
"""Most ticks of the heatmap."""
THERE = 0.1
"""Opacity of an entry that is there and not read; an empty one is blank."""
LEFT, RIGHT, GAP, BOTTOM = 78.0, 6.0, 8.0, 32.0


def timeline(name: str, trace: Trace, ticks: Sequence[int], cameras: Mapping[str, np.ndarray], series: str) -> Drawing:
    """Draw an episode.

    Args:
        name: Unique on the page.
        trace: What the memory read.
        ticks: Those that there are frames of.
        cameras: Frames of each camera at these ticks, (T, Y, X, 3) uint8; may be empty.
        series: Colour.
    """
    count = min(FRAMES, len(trace.ticks))
    width = WIDTH - LEFT - RIGHT
    heights = {camera: width / count * video.shape[1] / video.shape[2] for camera, video in cameras.items()}
    entries = max((len(row) for row in trace.attention), default=0)
    heights |= {"attention": min(max(9.0 * entries, 40.0), 190.0)} if entries else {}
    heights |= {key: 56.0 for key in ("read age", "gate") if _has(trace, key)}
    with style():
        figure, panels = _panels(heights)
        for camera, video in cameras.items():
            _strip(panels[camera], trace, ticks, video)
            frame(panels[camera], camera)
        if "attention" in panels:
            _heatmap(panels["attention"], trace, series)
        if "read age" in panels:
            _curve(panels["read age"], trace, _read_age(trace), "age read (s)", series)
        if "gate" in panels:
            _curve(panels["gate"], trace, np.array(trace.gate), "gate", series)
            panels["gate"].set_ylim(-0.05, 1.05)
        last = list(panels.values())[-1]
        last.tick_params(axis="x", labelbottom=True, length=3)
        last.xaxis.set_major_locator(MaxNLocator(12, integer=True))
        last.set_xlabel("control tick")
        return drawing(figure, name, "Memory over one episode", _tell(trace))


def peak(trace: Trace) -> float:
    """The largest attention weight, drawn darkest."""
    return max((w for row in trace.attention for w in row if np.isfinite(w)), default=0.0)


def _has(trace: Trace, panel: str) -> bool:
    return bool(trace.gate) if panel == "gate" else bool(trace.age and trace.attention)


def _panels(heights: Mapping[str, float]) -> tuple[Figure, dict[str, Axes]]:
    total = sum(heights.values()) + GAP * (len(heights) - 1) + BOTTOM
    figure = Figure(figsize=(WIDTH / 72, total / 72))
    panels: dict[str, Axes] = {}
    top = total
    for key, height in heights.items():
        box = (LEFT / WIDTH, (top - height) / total, (WIDTH - LEFT - RIGHT) / WIDTH, height / total)
        panels[key] = figure.add_axes(box, sharex=next(iter(panels.values()), None))
        panels[key].tick_params(axis="x", labelbottom=False, length=0)
        top -= height + GAP
    return figure, panels


def _span(trace: Trace) -> tuple[float, float]:
    return trace.ticks[0] - 0.5, trace.ticks[-1] + 0.5


def _strip(axes: Axes, trace: Trace, ticks: Sequence[int], video: np.ndarray) -> None:
    """Equally wide frames; each shows the tick nearest to its middle."""
    edges = np.linspace(*_span(trace), min(FRAMES, len(trace.ticks)) + 1)
    middle = (edges[:-1] + edges[1:]) / 2
    nearest = np.abs(np.asarray(ticks) - middle[:, None]).argmin(1)
    picture = np.concatenate(video[nearest], axis=1)
    axes.imshow(picture, extent=(edges[0], edges[-1], 0, 1), aspect="auto", interpolation="none")
    axes.vlines(edges[1:-1], 0, 1, color=SURFACE, linewidth=2)
    axes.set(yticks=[], xlim=_span(trace))
    for spine in axes.spines.values():
        spine.set_visible(False)


def _heatmap(axes: Axes, trace: Trace, series: str) -> None:
    picked = np.unique(np.linspace(0, len(trace.ticks) - 1, min(COLUMNS, len(trace.ticks))).astype(int))
    weights, there = _rectangle(trace.attention)[picked], _filled(trace)[picked]
    lowest, highest = _span(trace)
    edges = np.linspace(lowest, highest, len(picked) + 1)
    red, green, blue = (int(SERIES[series][i : i + 2], 16) / 255 for i in (1, 3, 5))
    colours = np.empty((*weights.T.shape, 4))
    colours[...] = red, green, blue, 0
    # The square root keeps small shares visible beside the peak of the first tick, when there is one entry only.
    shares = np.sqrt(np.nan_to_num(weights) / (peak(trace) or 1.0))
    colours[..., 3] = np.where(there, THERE + (1 - THERE) * shares, 0).T
    rows = np.arange(weights.shape[1] + 1) - 0.5
    axes.pcolormesh(edges, rows, colours, edgecolors=SURFACE, linewidth=min(0.8, 24 / len(picked)))
    axes.set(xlim=(lowest, highest), ylim=(weights.shape[1] - 0.5, -0.5))
    axes.yaxis.set_major_locator(MaxNLocator(4, integer=True))
    frame(axes, "memory\nentry")


def _rectangle(rows: tuple[tuple[float, ...], ...]) -> np.ndarray:
    """Rows of one length, filled with NaN."""
    table = np.full((len(rows), max(len(row) for row in rows)), np.nan)
    for index, row in enumerate(rows):
        table[index, : len(row)] = row
    return table


def _filled(trace: Trace) -> np.ndarray:
    """(T, M) which entries are there; all that have a weight, where the ages do not say it."""
    return np.isfinite(_rectangle(trace.age or trace.attention))


def _read_age(trace: Trace) -> np.ndarray:
    """Mean age of what was read, weighted by attention, seconds; NaN where nothing was."""
    weights, ages = np.nan_to_num(_rectangle(trace.attention)), np.nan_to_num(_rectangle(trace.age))
    total = weights.sum(1)
    return np.divide((weights * ages).sum(1), total, out=np.full(len(total), np.nan), where=total > 0)


def _curve(axes: Axes, trace: Trace, values: np.ndarray, label: str, series: str) -> None:
    axes.plot(trace.ticks, values, color=SERIES[series])
    axes.fill_between(trace.ticks, values, 0, color=SERIES[series], alpha=0.15, linewidth=0)
    axes.set_ylim(bottom=0)
    axes.yaxis.set_major_locator(MaxNLocator(3))
    axes.grid(axis="y")
    frame(axes, label)


def _tell(trace: Trace) -> str:
    text = f"Episode of seed {trace.seed}, {len(trace.ticks)} ticks"
    if trace.attention:
        last = np.nan_to_num(np.array(trace.attention[-1]))
        text += f"; at the last tick the memory reads most from entry {int(last.argmax())} (weight {last.max():.2f})"
    if trace.gate:
        text += f"; the gate goes from {trace.gate[0]:.2f} to {trace.gate[-1]:.2f}"
    return text
