"""Opens a dataset of any format that RoboMem reads."""

from collections.abc import Sequence
from pathlib import Path

from robomem.datasets.config import DataConfig, MixedIn
from robomem.datasets.matching import AUTO, choose_mapping
from robomem.datasets.mixture import Mixture
from robomem.datasets.schema import LEROBOT, NPZ, read_schema
from robomem.datasets.source import EpisodeSource
from robomem.errors import RobomemError


def open_source(
    root: Path | str, episodes: Sequence[int] | None = None, cache_bytes: int = 0, mapping: str = AUTO
) -> EpisodeSource:
    """The episodes of a dataset: one that RoboMem wrote, any other LeRobotDataset v3, RLDS, or NPZ.

    Args:
        root: Its folder.
        episodes: Indices of the episodes to read, in this order; all by default.
        cache_bytes: Decoded episodes kept in memory, the least recently used leaving first.
        mapping: Name of a mapping in `configs/mapping`, or the path of a YAML file, that tells what the fields of a
            dataset of others mean; by default the only one that fits.

    Raises:
        RobomemError: no dataset, no such episode, no mapping or several that fit, or a file that is missing or damaged.
    """
    schema = read_schema(root)
    if schema.recorded and mapping != AUTO:
        raise RobomemError(f"{root} was written by RoboMem and needs no mapping; leave out data.mapping={mapping}")
    chosen = None if schema.recorded else choose_mapping(schema, mapping)
    if schema.format == LEROBOT:
        if chosen is None:
            from robomem.datasets.lerobot_reader import EpisodeReader

            return EpisodeReader(root, episodes, cache_bytes)
        from robomem.datasets.lerobot_foreign import LeRobotSource

        return LeRobotSource(root, chosen, episodes, cache_bytes)
    if schema.format == NPZ and chosen is not None:
        from robomem.datasets.npz_source import NpzSource

        return NpzSource(schema, chosen, episodes, cache_bytes)
    from robomem.datasets.rlds_source import RldsSource

    return RldsSource(schema.root, chosen, episodes, cache_bytes)


def open_training_data(data: DataConfig) -> tuple[EpisodeSource, list[float]]:
    """The episodes that a policy trains on, and how often an epoch visits each, in the mean.

    Raises:
        SpecMismatch: the datasets are of several robots.
        RobomemError: see `open_source`.
    """
    parts = [MixedIn(root=data.root), *data.mix]
    sources = [open_source(part.root, None, data.cache_bytes // len(parts), data.mapping) for part in parts]
    visits = [part.weight for part, source in zip(parts, sources, strict=True) for _ in range(len(source))]
    return (Mixture(sources, [part.root for part in parts]) if data.mix else sources[0]), visits
