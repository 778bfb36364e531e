"""Reads the episodes that the benchmark's own collectors write: `train_data_<n>.npz`, an episode each."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy import ndarray

from robomem.datasets.assembly import assemble_vectors, freeze, vector_fields
from robomem.datasets.cached import CachedEpisodes, choose_episodes
from robomem.datasets.lerobot_index import damaged
from robomem.datasets.mapping import SchemaMapping
from robomem.datasets.matching import bind_mapping
from robomem.datasets.npz_format import LENGTH, SEED, episode_paths, load_arrays
from robomem.datasets.schema import DatasetSchema
from robomem.episode import Episode
from robomem.errors import NonFiniteError, RobomemError, SpecMismatch
from robomem.spec import CameraSpec, EmbodimentSpec


class NpzSource(CachedEpisodes):
    """Episodes of a folder in the order of their numbers; their arrays are read-only.

    The cameras lie one after another in the channels of one array; a mapping's field `rgb/1` is the second of them.
    """

    def __init__(
        self, schema: DatasetSchema, mapping: SchemaMapping, episodes: Sequence[int] | None = None, cache_bytes: int = 0
    ) -> None:
        """Open a folder; of each episode only its length, seed and success are read.

        Args:
            schema: Of the folder.
            mapping: The meaning of the arrays.
            episodes: Ranks of the episodes to read, in this order; all by default.
            cache_bytes: Decoded episodes kept in memory, the least recently used leaving first.

        Raises:
            RobomemError: no such episode, a mapping that does not fit, or a file that is damaged.
        """
        self._mapping = mapping = bind_mapping(mapping, schema)
        paths = episode_paths(schema.root)
        super().__init__(choose_episodes(schema.root, len(paths), episodes), cache_bytes)
        self._paths = [paths[index] for index in self.indices]
        success = [mapping.success] if isinstance(mapping.success, str) else []
        heads = [load_arrays(path, [LENGTH, SEED, *success]) for path in self._paths]
        self.lengths = tuple(int(head[LENGTH]) for head in heads)
        """Ticks of each episode."""
        self.seeds = tuple(int(head[SEED]) for head in heads)
        """Seed of each episode."""
        self.successes = tuple(bool(head[success[0]].any()) if success else bool(mapping.success) for head in heads)
        """Whether each episode reached success at any tick."""
        self.provenance: dict[str, Any] = {"format": "npz", "mapping": mapping.name}
        """JSON values that describe the dataset as a whole."""
        if not mapping.period:
            raise RobomemError(f"NPZ tells no time between ticks; set period in the mapping {mapping.name}")
        shapes = {name: schema.fields[field].shape for name, field in mapping.cameras.items()}
        self._embodiment = EmbodimentSpec(
            cameras=tuple(CameraSpec(name=name, height=shape[0], width=shape[1]) for name, shape in shapes.items()),
            proprio=mapping.proprio.spec,
            action=mapping.action.spec,
            action_dt=mapping.period,
        )

    @property
    def embodiment(self) -> EmbodimentSpec:
        """The robot that the episodes were recorded with."""
        return self._embodiment

    def _read(self, position: int, cameras: Sequence[CameraSpec]) -> Episode:
        mapping, path, ticks = self._mapping, self._paths[position], self.lengths[position]
        fields = [mapping.cameras[camera.name] for camera in cameras]
        names = {*vector_fields(mapping), *(field.split("/")[0] for field in fields)}
        arrays = load_arrays(path, [*names, mapping.instruction])
        short = [name for name in sorted(names) if len(arrays[name]) != ticks]
        if short:
            raise damaged(path, f"{short[0]} has {len(arrays[short[0]])} ticks, the episode {ticks}")
        episode = Episode(
            images={c.name: _frames(arrays, field) for c, field in zip(cameras, fields, strict=True)},
            **assemble_vectors(mapping, arrays, ticks, self._embodiment.action_dt),
            instruction=str(arrays[mapping.instruction]),
            seed=self.seeds[position],
        )
        try:
            episode.check(self._embodiment) if cameras else episode.check_finite()
        except (SpecMismatch, NonFiniteError) as error:
            raise damaged(path, error) from error
        return episode


def _frames(arrays: dict[str, ndarray], field: str) -> ndarray:
    name, number = field.split("/")
    return freeze(np.ascontiguousarray(arrays[name][..., 3 * int(number) : 3 * int(number) + 3]))
