"""`robomem data split`: a dataset into disjoint ones, by shares."""

import re
from pathlib import Path

import click

from robomem.data.writing import frame_options
from robomem.errors import RobomemError


class Part(click.ParamType):
    """`NAME=SHARE`."""

    name = "NAME=SHARE"

    def convert(self, value: str, param: click.Parameter | None, ctx: click.Context | None) -> tuple[str, float]:
        """Name and share, from 0 to 1."""
        match = re.fullmatch(r"([\w.-]+)=(0?\.\d+|1|1\.0*|0)", value)
        if not match:
            self.fail(f"{value!r} is not NAME=SHARE, such as train=0.9", param, ctx)
        return match[1], float(match[2])


@click.command("split")
@click.argument("source", type=click.Path(path_type=Path))
@click.argument("target", type=click.Path(path_type=Path))
@click.option(
    "--into", "parts", multiple=True, required=True, type=Part(), help="Repeatable: train=0.9, then test=0.1."
)
@click.option(
    "--seed", default=0, show_default=True, type=click.IntRange(min=0), help="Of the order in which to share."
)
@click.option("--mapping", default="auto", show_default=True, help="Schema mapping of SOURCE.")
@frame_options
def main(
    source: Path,
    target: Path,
    parts: tuple[tuple[str, float], ...],
    seed: int,
    mapping: str,
    codec: str,
    crf: int | None,
) -> None:
    """Share out the episodes of SOURCE, of any format, among LeRobotDatasets v3 in folders TARGET/NAME.

    Every episode goes to one of them, as a whole. A split that was stopped goes on when it is given again.
    """
    from robomem.data.writing import choose_codec, share_out, write
    from robomem.datasets.open import open_source

    shares = dict(parts)
    if len(shares) < len(parts) or abs(sum(shares.values()) - 1) > 1e-6:
        raise RobomemError(
            f"--into names {len(parts)} parts with shares of {sum(s for _, s in parts):g} in all; give each "
            "name once, and shares that make 1"
        )
    whole = open_source(source, mapping=mapping)
    frames = choose_codec(whole, codec, crf)
    for name, episodes in share_out(len(whole), shares, seed).items():
        write(open_source(source, episodes, mapping=mapping), target / name, frames)
