"""Scores by condition: a panel per probe, a line per module."""

from collections.abc import Mapping, Sequence
from io import BytesIO

import matplotlib
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from robomem.probes.base import Probe
from robomem.probes.table import Row

PANEL = (4.2, 3.2)
"""Inches."""
MARKERS = "osD^vP*X"


def plot(table: Sequence[Row], probes: Mapping[str, Probe]) -> bytes:
    """An SVG file."""
    names = list(dict.fromkeys(row.module for row in table))
    colours = matplotlib.colormaps["tab20"].colors  # pyright: ignore[reportAttributeAccessIssue]
    styles = {
        name: {"color": colours[index % len(colours)], "marker": MARKERS[index % len(MARKERS)]}
        for index, name in enumerate(names)
    }
    columns = min(3, len(probes))
    lines = -(-len(probes) // columns)
    figure = Figure(figsize=(PANEL[0] * columns, PANEL[1] * lines + 0.5), layout="constrained")
    axes = figure.subplots(lines, columns, squeeze=False).flatten()
    for panel, (name, probe) in zip(axes, probes.items(), strict=False):
        _panel(panel, name, probe, [row for row in table if row.probe == name], styles)
    for panel in axes[len(probes) :]:
        panel.set_visible(False)
    handles = [Line2D([], [], label=name, **style) for name, style in styles.items()]
    figure.legend(handles=handles, loc="outside lower center", ncols=6, frameon=False)
    buffer = BytesIO()
    with matplotlib.rc_context({"svg.hashsalt": "robomem", "svg.fonttype": "none"}):
        figure.savefig(buffer, format="svg", metadata={"Date": None})
    return buffer.getvalue()


def _panel(
    axes: Axes, name: str, probe: Probe, rows: Sequence[Row], styles: Mapping[str, Mapping[str, object]]
) -> None:
    for row in rows:
        scores = list(row.scores.values())
        below, above = [s.mean - s.low for s in scores], [s.high - s.mean for s in scores]
        style = {"markersize": 4, "linewidth": 1.2, "elinewidth": 0.8, "capsize": 2, **styles[row.module]}
        axes.errorbar(list(row.scores), [s.mean for s in scores], yerr=[below, above], **style)  # pyright: ignore[reportArgumentType]
    if probe.chance is not None:
        axes.axhline(probe.chance, color="0.5", linewidth=1, linestyle="--", zorder=0)
    axes.set_title(name)
    axes.set_ylabel({"s": "error (s)", "success": "share right"}.get(probe.unit, probe.unit))
    axes.set_ylim(bottom=-1.05 if probe.unit == "return" else 0, top=None if probe.unit == "s" else 1.05)
    axes.tick_params(axis="x", labelrotation=25)
    axes.spines[["top", "right"]].set_visible(False)
