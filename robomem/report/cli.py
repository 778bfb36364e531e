"""`robomem report`: the command line of the report."""

from pathlib import Path

import click


@click.command(name="report")
@click.argument("runs", nargs=-1, required=True, metavar="RUN...", type=click.Path(path_type=Path))
@click.option(
    "--output", "-o", default="report.html", show_default=True, type=click.Path(dir_okay=False, path_type=Path),
    help="The HTML file to write.",
)  # fmt: skip
@click.option("--title", default="", help="Heading of the page; by default the task's name.")
@click.option("--open", "show", is_flag=True, help="Open the page in the browser.")
def main(runs: tuple[Path, ...], output: Path, title: str, show: bool) -> None:
    """Write one self-contained HTML page about training runs, their evaluations and their audits.

    RUN is the folder of a training run, or one that holds evaluations only (a baseline). The first memory policy is
    compared with the first memoryless one.
    """
    from robomem.report.page import write_report

    written = write_report(runs, output, title)
    click.echo(f"{written} ({written.stat().st_size / 1e6:.1f} MB)")
    if show:
        click.launch(str(written.resolve()))
