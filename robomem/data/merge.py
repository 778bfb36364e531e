"""`robomem data merge`: several datasets of one robot into one."""

from pathlib import Path

import click


@click.command("merge")
@click.argument("target", type=click.Path(path_type=Path))
@click.argument("sources", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option("--mapping", default="auto", show_default=True, help="Schema mapping of the SOURCES.")
def main(target: Path, sources: tuple[Path, ...], mapping: str) -> None:
    """Write the episodes of all SOURCES, of any format and one after another, as a LeRobotDataset v3 in folder TARGET.

    Their robots must be the same. A merge that was stopped goes on when it is given again.
    """
    from robomem.data.subset import write
    from robomem.datasets.mixture import Mixture
    from robomem.datasets.open import open_source

    write(Mixture([open_source(root, mapping=mapping) for root in sources], list(map(str, sources))), target)
