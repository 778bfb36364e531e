"""`robomem data check`: what is wrong in a recorded dataset, and what can be salvaged."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from rich.console import Console

    from robomem.datasets.checking.finding import Finding
    from robomem.datasets.checking.repair import Repaired


@click.command("check")
@click.argument("root", type=click.Path(path_type=Path))
@click.option("--repair", "out", type=click.Path(path_type=Path), help="Write what is whole or can be mended here.")
@click.option(
    "--json", "document", type=click.Path(dir_okay=False, path_type=Path), help="Write the findings here too."
)
@click.option("--mapping", default="auto", show_default=True, help="Schema mapping of RLDS: a name or a YAML file.")
def main(root: Path, out: Path | None, document: Path | None, mapping: str) -> int:
    """Check every file and every episode of the dataset in folder ROOT, without changing it.

    Errors are what is unreadable or wrong, warnings what is suspicious. The exit status is 1 if there are errors,
    mended or not. With --repair a new dataset gets all episodes but those with errors that cannot be mended.
    """
    from av import logging as av_logging
    from rich.console import Console

    from robomem.datasets.checking.check import check_dataset
    from robomem.datasets.checking.finding import ERROR
    from robomem.datasets.checking.repair import repair_dataset
    from robomem.files import write_json
    from robomem.progress import counting

    av_logging.set_level(av_logging.PANIC)  # What it prints of damaged videos is among the findings.
    console = Console()
    with counting("checking") as report:
        findings = check_dataset(root, mapping, report)
    _show(console, root, findings)
    repaired = None
    if out is not None:
        with counting("copying") as report:
            repaired = repair_dataset(root, out, findings, report)
        _show_repaired(console, out, repaired)
    if document is not None:
        write_json(document, _document(root, findings, repaired))
    return int(any(finding.severity == ERROR for finding in findings))


def _show(console: "Console", root: Path, findings: Sequence["Finding"]) -> None:
    from rich.table import Table
    from rich.text import Text

    if not findings:
        console.print(f"{root}: nothing wrong", highlight=False, soft_wrap=True)
        return
    table = Table(title=Text(str(root)))
    for heading in ("severity", "check", "where", "what", "repair"):
        table.add_column(heading, overflow="fold")
    for finding in findings:
        episode = f"episode {finding.episode}" if finding.episode is not None else ""
        where = "\n".join(filter(None, (episode, finding.file)))
        cells = (finding.severity, finding.check, where, finding.what, finding.repair)
        table.add_row(*map(Text, cells), style="red" if finding.severity == "error" else "yellow")
    console.print(table)
    errors = sum(finding.severity == "error" for finding in findings)
    console.print(f"{errors} errors, {len(findings) - errors} warnings", highlight=False)


def _show_repaired(console: "Console", out: Path, repaired: "Repaired") -> None:
    for finding in repaired.mended:
        where = finding.file if finding.episode is None else f"episode {finding.episode}"
        console.print(f"mended: {where}: {finding.what}", highlight=False, soft_wrap=True, markup=False)
    for episode, why in repaired.lost.items():
        console.print(f"lost: episode {episode}: {why}", highlight=False, soft_wrap=True, markup=False)
    line = f"{out}: {len(repaired.kept)} episodes kept, {len(repaired.lost)} lost"
    console.print(line, highlight=False, soft_wrap=True, markup=False)


def _document(root: Path, findings: Sequence["Finding"], repaired: "Repaired | None") -> dict[str, object]:
    document: dict[str, object] = {"root": str(root), "findings": [finding.to_dict() for finding in findings]}
    if repaired is not None:
        document |= {"kept": list(repaired.kept), "lost": {str(k): v for k, v in repaired.lost.items()}}
        document["mended"] = [finding.to_dict() for finding in repaired.mended]
    return document
