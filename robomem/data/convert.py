"""`robomem data convert`: RLDS to LeRobotDataset v3 and back, without a detour and without a doubt."""

import os
from pathlib import Path

import click


@click.command("convert")
@click.argument("source", type=click.Path(path_type=Path))
@click.argument("target", type=click.Path(path_type=Path))
@click.option("--to", "target_format", required=True, type=click.Choice(["lerobot", "rlds"]), help="Format of TARGET.")
@click.option("--mapping", default="auto", show_default=True, help="Schema mapping of SOURCE: a name or a YAML file.")
@click.option(
    "--jobs", default=os.cpu_count() or 1, show_default="cores", type=click.IntRange(min=1), help="Threads that encode."
)
def main(source: Path, target: Path, target_format: str, mapping: str, jobs: int) -> None:
    """Convert the dataset in folder SOURCE into one in TARGET, then compare the two episode by episode.

    A conversion that was stopped goes on when it is given again.
    """
    from rich.console import Console

    from robomem.datasets.convert import compare, write_lerobot
    from robomem.datasets.open import open_source
    from robomem.progress import counting

    episodes = open_source(source, mapping=mapping)
    if target_format == "lerobot":
        with counting("writing LeRobotDataset", len(episodes)) as report:
            write_lerobot(episodes, target, jobs, report)
    else:
        from robomem.datasets.rlds_writer import write_rlds

        with counting("writing RLDS", len(episodes)) as report:
            target = write_rlds(episodes, target, report=report)
    with counting("comparing", len(episodes)) as report:
        compare(episodes, open_source(target), report)
    ticks = sum(episodes.lengths)
    Console().print(
        f"{target}: {len(episodes)} episodes, {ticks:,} ticks, equal to {source}", highlight=False, soft_wrap=True
    )
