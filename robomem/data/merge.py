"""`robomem data merge`: several datasets of one robot into one."""

from pathlib import Path

import click

from robomem.data.writing import frame_options


@click.command("merge")
@click.argument("target", type=click.Path(path_type=Path))
@click.argument("sources", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option("--mapping", default="auto", show_default=True, help="Schema mapping of the SOURCES.")
@frame_options
def main(target: Path, sources: tuple[Path, ...], mapping: str, codec: str, crf: int | None) -> None:
    """Write the episodes of all SOURCES, of any format and one after another, as a LeRobotDataset v3 in folder TARGET.

    Their robots must be the same. A merge that was stopped goes on when it is given again.
    """
    from robomem.data.writing import choose_codec, write
    from robomem.datasets.mixture import Mixture
    from robomem.datasets.open import open_source

    source = Mixture([open_source(root, mapping=mapping) for root in sources], list(map(str, sources)))
    write(source, target, choose_codec(source, codec, crf))
