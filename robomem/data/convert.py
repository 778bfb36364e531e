"""`robomem data convert`: RLDS to LeRobotDataset v3 and back, without a detour and without a doubt."""

from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING

import click

from robomem.data.writing import available_cores, choose_codec, frame_options, write_encoded
from robomem.errors import RobomemError

if TYPE_CHECKING:
    from robomem.datasets.config import FrameCodec
    from robomem.datasets.convert import Encoders
    from robomem.datasets.source import EpisodeSource


@click.command("convert")
@click.argument("source", type=click.Path(path_type=Path))
@click.argument("target", type=click.Path(path_type=Path))
@click.option("--to", "target_format", required=True, type=click.Choice(["lerobot", "rlds"]), help="Format of TARGET.")
@click.option("--mapping", default="auto", show_default=True, help="Schema mapping of SOURCE: a name or a YAML file.")
@frame_options
@click.option(
    "--jobs",
    default=available_cores(),
    show_default="cores",
    type=click.IntRange(min=1),
    help="Threads that encode.",
)
@click.option("--ray", "address", help="Encode on the Ray cluster at this address: HOST:PORT, auto, or local.")
def main(
    source: Path,
    target: Path,
    target_format: str,
    mapping: str,
    codec: str,
    crf: int | None,
    jobs: int,
    address: str | None,
) -> None:
    """Convert the dataset in folder SOURCE into one in TARGET, then compare the two episode by episode.

    A conversion that was stopped goes on when it is given again. With --ray every machine of the cluster must see
    SOURCE under the same path; only this one writes.
    """
    from rich.console import Console

    from robomem.datasets.convert import compare
    from robomem.datasets.open import open_source
    from robomem.progress import counting

    _refuse_overlap(source, target)
    episodes = open_source(source, mapping=mapping)
    if target_format == "lerobot":
        frames = choose_codec(episodes, codec, crf)
        with _encoders(episodes, source, mapping, frames, jobs, address) as encoders:
            write_encoded(episodes, target, encoders)
    else:
        _refuse_frame_options(codec, crf, address)
        target = _write_rlds(episodes, target)
    with counting("comparing", len(episodes)) as report:
        worst = compare(episodes, open_source(target), report)
    same = "equal to" if worst == float("inf") else f"equal but for its frames (PSNR at least {worst:.1f} dB) to"
    ticks = sum(episodes.lengths)
    Console().print(
        f"{target}: {len(episodes)} episodes, {ticks:,} ticks, {same} {source}", highlight=False, soft_wrap=True
    )


def _encoders(
    episodes: "EpisodeSource", root: Path, mapping: str, codec: "FrameCodec", jobs: int, address: str | None
) -> "AbstractContextManager[Encoders]":
    """Threads of this process, or a cluster."""
    from robomem.datasets.convert import encoding_threads

    if address is None:
        return encoding_threads(episodes, codec, jobs)
    from robomem.datasets.convert_ray import encoding_cluster

    return encoding_cluster(root, mapping, codec, address)


def _refuse_overlap(source: Path, target: Path) -> None:
    if target.resolve().is_relative_to(source.resolve()):
        raise RobomemError(f"{target} lies in the dataset to convert, {source}; give a folder beside it")


def _refuse_frame_options(codec: str, crf: int | None, address: str | None) -> None:
    if codec not in ("keep", "png") or crf is not None or address is not None:
        raise RobomemError("--codec, --crf and --ray are of --to lerobot; RLDS stores frames as PNG")


def _write_rlds(episodes: "EpisodeSource", folder: Path) -> Path:
    from robomem.datasets.rlds_writer import write_rlds
    from robomem.progress import counting

    with counting("writing RLDS", len(episodes)) as report:
        return write_rlds(episodes, folder, report=report)
