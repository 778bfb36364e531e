"""`robomem probe`: proofs that a memory works, in minutes on a CPU, without a simulator."""

import math
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from robomem.errors import RobomemError, nearest
from robomem.files import disk_guard, write_atomic, write_json
from robomem.probes import PROBES

if TYPE_CHECKING:
    from robomem.probes.cells import Cell
    from robomem.probes.learn import Budget


@click.command("probe")
@click.option(
    "--probe", "probes", multiple=True, metavar="NAME", help=f"Repeatable; by default all: {', '.join(PROBES)}."
)
@click.option(
    "--memory", "modules", multiple=True, metavar="NAME",
    help="A memory module of configs/memory, or NAME:KEY=VALUE,KEY=VALUE with other settings, for example "
    "gru:time=false. Repeatable; by default all.",
)  # fmt: skip
@click.option("--seeds", default=1, show_default=True, type=click.IntRange(min=1), help="Trainings of each cell.")
@click.option("--steps", default=1500, show_default=True, type=click.IntRange(min=1), help="Training steps, at most.")
@click.option(
    "--minutes", default=2.0, show_default=True, type=click.FloatRange(min=0, min_open=True),
    help="Processor minutes of training, at most; the schedule follows whichever ends first.",
)  # fmt: skip
@click.option(
    "--output", "-o", "folder", default="outputs/probe", show_default=True,
    type=click.Path(file_okay=False, path_type=Path), help="Folder of the results; finished cells there are kept.",
)  # fmt: skip
def main(probes: Sequence[str], modules: Sequence[str], seeds: int, steps: int, minutes: float, folder: Path) -> None:
    """Train and test memory modules on small tasks that only a memory can solve.

    Writes table.md, table.json and table.svg about all cells in the folder.
    """
    from rich.console import Console

    from robomem.probes.learn import Budget

    if not math.isfinite(minutes):
        raise RobomemError(f"--minutes {minutes} is no end; give a number")
    measure_all(plan(probes, modules, seeds), Budget(steps, minutes), folder)
    Console().print(write_table(folder), soft_wrap=True, highlight=False, markup=False)


def plan(probes: Sequence[str], modules: Sequence[str], seeds: int) -> list["Cell"]:
    """The cells asked for, one seed of all before the next.

    Raises:
        RobomemError: a name that does not exist; the nearest that does is named.
    """
    from robomem.probes.cells import Cell, load_probe
    from robomem.probes.model import module_config

    for probe in probes:
        if probe not in PROBES:
            raise RobomemError(f"no probe {probe!r}{nearest(probe, PROBES)}")
    for module in modules:
        module_config("memory", module)
    tested = {name: load_probe(name) for name in probes or PROBES}
    return [
        Cell(name, module, seed)
        for seed in range(seeds)
        for name, probe in tested.items()
        for module in (modules if modules and probe.group == "memory" else probe.subjects)
    ]


def measure_all(cells: Sequence["Cell"], budget: "Budget", folder: Path) -> None:
    """Measure the cells that have no result yet, under a progress bar."""
    import torch

    from robomem.probes.cells import measure

    torch.set_num_threads(1)
    remaining = [cell for cell in cells if not cell.is_finished(folder, budget)]
    done = len(cells) - len(remaining)
    with Progress(
        TextColumn("{task.description}"), BarColumn(), TaskProgressColumn(), TimeElapsedColumn(), TimeRemainingColumn()
    ) as bar:
        task = bar.add_task("probes", total=len(cells), completed=done)
        for number, cell in enumerate(remaining, start=done):
            bar.update(task, description=f"{number + 1}/{len(cells)} {cell}")
            measure(cell, budget, folder, lambda share, number=number: bar.update(task, completed=number + share))
            bar.update(task, completed=number + 1)


def write_table(folder: Path) -> str:
    """Write table.json, table.md and table.svg about all cells in a folder; gives the Markdown."""
    from robomem.probes.cells import load_cells, load_probe
    from robomem.probes.markdown import markdown
    from robomem.probes.plot import plot
    from robomem.probes.table import rows

    table = rows(load_cells(folder))
    probes = {name: load_probe(name) for name in dict.fromkeys(row.probe for row in table)}
    page = markdown(table, probes, "table.svg")
    with disk_guard(folder, "the table was not saved"):
        write_json(folder / "table.json", [row.to_dict() for row in table])
        write_atomic(folder / "table.svg", plot(table, probes))
        write_atomic(folder / "table.md", page.encode())
    return page
