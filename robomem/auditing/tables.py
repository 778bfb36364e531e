"""An audit on the terminal."""

from collections.abc import Iterator, Mapping
from typing import Any

from rich.table import Table


def tables(audit: Mapping[str, Any]) -> Iterator[Table]:
    """The tables of an `audit.json`."""
    yield _interventions(audit)
    if audit["retention"]:
        yield _retention(audit["retention"])
    if audit["gradients"]:
        yield _gradients(audit["gradients"], audit["dead_parameters"])


def _interventions(audit: Mapping[str, Any]) -> Table:
    view = Table(title=f"{audit['policy']} on {audit['env_id']} with its memory tampered with", min_width=60)
    for heading in ("memory", "success", "right first choice", "action change"):
        view.add_column(heading)
    for name, row in audit["interventions"].items():
        view.add_row(name, _rate(row["success_once"]), _rate(row["first_choice"]), f"{row['action_change']:.4f}")
    return view


def _retention(points: list[Mapping[str, Any]]) -> Table:
    view = Table(title="cue decoded from the memory", min_width=60)
    for heading in ("ticks since", "accuracy", "image alone", "chance", "episodes"):
        view.add_column(heading)
    for point in points[:: -(-len(points) // 12)]:
        accuracy = f"{point['accuracy']:.2f} ({point['low']:.2f} to {point['high']:.2f})"
        current, chance = f"{point['from_observation']:.2f}", f"{point['chance']:.2f}"
        view.add_row(str(point["ticks_after_cue"]), accuracy, current, chance, str(point["episodes"]))
    return view


def _gradients(norms: Mapping[str, float], dead: list[str]) -> Table:
    view = Table(title=f"gradient at {len(norms)} memory parameters, {len(dead)} of them dead", min_width=60)
    for heading in ("parameter", "norm"):
        view.add_column(heading)
    weakest = sorted(norms.items(), key=lambda item: item[1])[: max(5, len(dead))]
    for name, norm in weakest:
        view.add_row(name, f"{norm:.2e}")
    return view


def _rate(value: Mapping[str, Any] | None) -> str:
    return f"{value['rate']:.2f} ({value['low']:.2f} to {value['high']:.2f})" if value else "-"
