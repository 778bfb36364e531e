"""`robomem data inspect`: what a dataset holds, and which mapping gives it its meaning."""

from pathlib import Path
from typing import TYPE_CHECKING

import click

from robomem.errors import RobomemError

if TYPE_CHECKING:
    from rich.table import Table

    from robomem.datasets.ranges import Range
    from robomem.datasets.schema import DatasetSchema

_MOST = 8
"""Instructions that are shown."""


@click.command("inspect")
@click.argument("path", type=click.Path(path_type=Path))
@click.option(
    "--write", "file", type=click.Path(dir_okay=False, path_type=Path), help="Write the proposed mapping into a file."
)
def main(path: Path, file: Path | None) -> None:
    """Show a dataset's fields, which mapping fits it or why none does, and propose one.

    PATH is the folder of a LeRobotDataset v3, of an RLDS dataset, or of NPZ episodes.
    """
    from rich.console import Console

    from robomem.data.proposal import propose_mapping
    from robomem.datasets.mapping import load_mapping, mapping_names
    from robomem.datasets.matching import misfits
    from robomem.datasets.ranges import field_ranges
    from robomem.datasets.schema import read_schema

    schema = read_schema(path)
    ranges = field_ranges(schema)
    console = Console()
    console.print(_summary(schema), _fields(schema, ranges))
    reasons = {name: misfits(load_mapping(name), schema) for name in mapping_names()}
    fitting = [name for name, why in reasons.items() if not why]
    if schema.recorded:
        console.print("written by RoboMem: it needs no mapping")
    else:
        console.print(_mappings(reasons))
    if file is not None or not (schema.recorded or fitting):
        proposal = propose_mapping(schema, ranges)
        if file is None:
            console.print("A mapping to begin with (--write FILE keeps it):", style="bold")
            console.print(proposal, markup=False, highlight=False, soft_wrap=True)
        else:
            _write(file, proposal)
            console.print(f"wrote {file}: decide what is '?' in it, then give data.mapping={file}", soft_wrap=True)


def _write(file: Path, text: str) -> None:
    from robomem.files import disk_guard, write_atomic

    if file.exists():
        raise RobomemError(f"{file} exists already; give another --write, or remove it")
    with disk_guard(file.parent, "the mapping was not written"):
        write_atomic(file, text.encode())


def _summary(schema: "DatasetSchema") -> "Table":
    from rich.table import Table
    from rich.text import Text

    from robomem.datasets.lerobot_tables import read_tasks
    from robomem.datasets.schema import LEROBOT, TITLES

    table = Table.grid(padding=(0, 2))
    rows = {
        "dataset": str(schema.root),
        "format": TITLES[schema.format],
        "robot": schema.robot_type or "-",
        "episodes": f"{schema.episodes:,}" + (f", {schema.ticks:,} ticks" if schema.ticks is not None else ""),
    }
    if schema.fps:
        rows["fps"] = f"{schema.fps:g}"
    if schema.format == LEROBOT and schema.episodes:
        texts = list(read_tasks(schema.root).values())
        more = [f"and {len(texts) - _MOST} more"] if len(texts) > _MOST else []
        rows["instructions"] = "\n".join([*texts[:_MOST], *more])
    for name, value in rows.items():
        table.add_row(name, Text(value))
    return table


def _fields(schema: "DatasetSchema", ranges: "dict[str, Range]") -> "Table":
    from rich.table import Table
    from rich.text import Text

    from robomem.datasets.ranges import MOST_EPISODES
    from robomem.datasets.schema import LEROBOT

    some = schema.format != LEROBOT and schema.episodes > MOST_EPISODES
    table = Table("field", "type", "shape", f"range in {MOST_EPISODES} episodes" if some else "range")
    for name, field in schema.fields.items():
        shown = Text("\n".join(_range_lines(field.names, *ranges[name])) if name in ranges else "-")
        table.add_row(Text(name), field.dtype, " x ".join(map(str, field.shape)) or "1", shown)
    return table


def _range_lines(names: tuple[str, ...], low: list[float], high: list[float]) -> list[str]:
    """The range of each entry, with its name where it has one."""
    labels = [f"{name}: " for name in names] if len(names) == len(low) > 1 else [""] * len(low)
    return [f"{label}{a:.4g} ... {b:.4g}" for label, a, b in zip(labels, low, high, strict=True)]


def _mappings(reasons: dict[str, list[str]]) -> "Table":
    from rich.table import Table
    from rich.text import Text

    table = Table("mapping", "fits")
    for name, why in reasons.items():
        table.add_row(name, Text("yes" if not why else f"no: {'; '.join(why)}"))
    return table
