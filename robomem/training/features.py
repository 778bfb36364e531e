"""Features of a dataset's frames by a policy's frozen encoder: made where they are missing, then opened."""

from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console
from rich.filesize import decimal
from torch import nn

from robomem.errors import RobomemError
from robomem.progress import counting

if TYPE_CHECKING:
    from robomem.datasets.embedding_cache import EmbeddingCache, FrameEncoder
    from robomem.datasets.source import EpisodeSource


def frozen_encoder(policy: nn.Module) -> "FrameEncoder":
    """The part of a policy's encoder that never learns.

    Raises:
        RobomemError: all of it does.
    """
    from robomem.policies.encoders.base import Encoder

    encoder = getattr(policy, "encoder", None)
    frozen = encoder.frozen() if isinstance(encoder, Encoder) else None
    if frozen is None:
        raise RobomemError(
            "data.cache_features=true needs an encoder that never learns, at least in a part; set encoder=vit, or "
            "data.cache_features=false"
        )
    return frozen


def encode_frames(source: "EpisodeSource", encoder: "FrameEncoder", root: Path) -> "EmbeddingCache":
    """The features of all frames of a source; tells their size before it makes them, and how far it is.

    Args:
        source: The episodes.
        encoder: What encodes.
        root: Folder of caches; each lies in a folder named after its contents. One that was begun is finished.

    Raises:
        RobomemError: another process makes them, they are damaged, or the disk is full.
    """
    from robomem.datasets.embedding_cache import Contents, EmbeddingCache, is_finished
    from robomem.datasets.embedding_writer import fill

    contents = Contents.of(source, encoder)
    folder = root / contents.name
    if not is_finished(folder, contents):
        ticks, cameras = sum(contents.lengths), len(contents.cameras)
        what = f"{ticks * cameras:,} frames of {len(source)} episodes, {decimal(contents.size)}"
        console = Console()
        console.print(f"encoding {what}, into {folder}", highlight=False, soft_wrap=True, markup=False)
        with counting("ticks", ticks) as report:
            fill(folder, contents, source, encoder, report)
    return EmbeddingCache(folder, contents)
