"""`robomem doctor`: a table of what this machine has, and the command that brings each missing thing."""

import json
from collections.abc import Sequence
from dataclasses import asdict

import click
from rich.console import Console
from rich.table import Table

from robomem.machine import Check, inspect_machine


@click.command("doctor")
@click.option("--json", "as_json", is_flag=True, help="Print a JSON document instead of the table.")
def main(as_json: bool) -> int:
    """Show what this machine has; for each thing missing, the command that brings it.

    The exit status is 1 if something is missing that RoboMem needs.
    """
    console = Console(stderr=True)
    with console.status("looking at this machine"):
        checks = list(inspect_machine())
    missing = [check for check in checks if check.required and not check.ok]
    if as_json:
        click.echo(json.dumps({"ok": not missing, "checks": [asdict(check) for check in checks]}, indent=2))
    else:
        _print(checks, missing)
    return int(bool(missing))


def _print(checks: Sequence[Check], missing: Sequence[Check]) -> None:
    console = Console()
    table = Table(box=None, pad_edge=False, header_style="bold")
    for column in ("", "area", "what", "found"):
        table.add_column(column, overflow="fold")
    for check in checks:
        table.add_row(_mark(check), check.area, check.name, check.found)
    console.print(table, "")
    for check in checks:
        if not check.ok:
            console.print(f"{_mark(check)} [bold]{check.name}[/]: {check.fix}", soft_wrap=True)
    verdict = f"[red]{len(missing)} missing[/]" if missing else "[green]all that is needed is here[/]"
    console.print(verdict)


def _mark(check: Check) -> str:
    if check.ok:
        return "[green]✓[/]"
    return "[red]✗[/]" if check.required else "[yellow]-[/]"
