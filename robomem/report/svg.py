"""Matplotlib figures as inline SVG that takes its colours and fonts from the page."""

import io
import re
from dataclasses import dataclass
from typing import Any
from xml.etree import ElementTree

import matplotlib
from markupsafe import Markup
from matplotlib.axes import Axes
from matplotlib.figure import Figure

# Colours that stand for the page's CSS variables; no figure draws them otherwise.
INK, MUTED, GRID, SURFACE, STRIPE = "#010101", "#020202", "#030303", "#040404", "#050505"
SERIES = {name: f"#0a0a{number:02x}" for number, name in enumerate(("base", "s1", "s2", "s3", "s4", "s5", "s6"))}
VARIABLES = {INK: "--ink", MUTED: "--muted", GRID: "--line", SURFACE: "--card", STRIPE: "--stripe"} | {
    colour: f"--{name}" for name, colour in SERIES.items()
}

STYLE: dict[Any, Any] = {
    "axes.edgecolor": GRID,
    "axes.labelcolor": MUTED,
    "axes.labelsize": 10.5,
    "axes.spines.right": False,
    "axes.spines.top": False,
    "axes.titlecolor": INK,
    "figure.facecolor": "none",
    "axes.facecolor": "none",
    "font.size": 10.5,
    "grid.color": GRID,
    "grid.linewidth": 0.7,
    "lines.linewidth": 1.8,
    "lines.solid_capstyle": "round",
    "svg.fonttype": "none",
    "svg.hashsalt": "robomem",
    "text.color": INK,
    # Names come from the user: a dollar sign is a dollar sign.
    "text.parse_math": False,
    "xtick.color": GRID,
    "xtick.labelcolor": MUTED,
    "xtick.labelsize": 10.5,
    "xtick.major.size": 3,
    "ytick.color": GRID,
    "ytick.labelcolor": MUTED,
    "ytick.labelsize": 10.5,
    "ytick.major.size": 0,
    "ytick.minor.size": 0,
}

_NAMESPACE = "{http://www.w3.org/2000/svg}"
_LINK = "{http://www.w3.org/1999/xlink}href"


@dataclass(frozen=True)
class Drawing:
    """A figure of the page."""

    title: str
    svg: Markup
    """Says in its label what it shows, for those who do not see it."""


def canvas(width: float, height: float) -> tuple[Figure, Axes]:
    """An empty figure of a size in points with one pair of axes that fills it."""
    figure = Figure(figsize=(width / 72, height / 72))
    return figure, figure.add_axes((0, 0, 1, 1))


def style() -> Any:
    """Context in which figures are drawn."""
    return matplotlib.rc_context(STYLE)


def drawing(figure: Figure, name: str, title: str, alt: str) -> Drawing:
    """Turn a figure into inline SVG.

    Args:
        figure: Drawn within `style()`.
        name: Unique on the page; keeps the ids of this figure apart from the others'.
        title: Heading.
        alt: What it shows, for those who do not see it.
    """
    buffer = io.StringIO()
    with style():
        figure.savefig(buffer, format="svg", bbox_inches="tight", pad_inches=2 / 72, metadata={"Date": None})
    root = ElementTree.fromstring(buffer.getvalue())
    _tidy(root, name)
    view = root.get("viewBox", "")
    root.attrib.clear()
    root.attrib.update({"viewBox": view, "role": "img", "aria-label": alt, "class": "plot"})
    return Drawing(title, Markup(ElementTree.tostring(root, encoding="unicode")))


def _tidy(root: ElementTree.Element, name: str) -> None:
    for parent in list(root.iter()):
        for child in list(parent):
            if child.tag in (_NAMESPACE + "style",) or child.tag.endswith("metadata"):
                parent.remove(child)
    text = ElementTree.tostring(root, encoding="unicode")
    used = set(re.findall(r"url\(#([^)]+)\)", text)) | set(re.findall(r'href="#([^"]+)"', text))
    for element in root.iter():
        element.tag = element.tag.removeprefix(_NAMESPACE)
        if link := element.attrib.pop(_LINK, None):
            element.set("href", f"#{name}-{link[1:]}" if link.startswith("#") else link)
        if (identity := element.attrib.pop("id", None)) in used:
            element.set("id", f"{name}-{identity}")
        for key in ("style", "clip-path"):
            if value := element.get(key):
                element.set(key, _restyle(value, name))


def _restyle(value: str, name: str) -> str:
    value = re.sub(r"url\(#([^)]+)\)", rf"url(#{name}-\1)", value)
    value = re.sub(r"#0[0-9a-f]{5}", lambda m: f"var({VARIABLES[m[0]]})" if m[0] in VARIABLES else m[0], value)
    return re.sub(r"font: (?:(\d+|bold) )?([\d.]+)px [^;]*", _font, value)


def _font(match: re.Match[str]) -> str:
    weight = f"font-weight: {match[1]}; " if match[1] else ""
    return f"{weight}font-size: {match[2]}px"
