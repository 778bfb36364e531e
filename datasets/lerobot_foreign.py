"""Reads whole episodes of any LeRobotDataset v3 by a schema mapping."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
from numpy import ndarray

from robomem.datasets.assembly import assemble_vectors, freeze, vector_fields
from robomem.datasets.cached import CachedEpisodes, choose_episodes
from robomem.datasets.lerobot_index import damaged, reading
from robomem.datasets.lerobot_reader import read_images, read_values, refuse_non_finite
from robomem.datasets.lerobot_tables import LeRobotTables
from robomem.datasets.mapping import SchemaMapping
from robomem.datasets.matching import TASK, bind_mapping
from robomem.datasets.schema import read_schema
from robomem.datasets.video_frames import find_clip, read_clip
from robomem.episode import Episode
from robomem.spec import CameraSpec, EmbodimentSpec


class LeRobotSource(CachedEpisodes):
    """Episodes of a LeRobotDataset v3 in order, or a subset of them; their arrays are read-only.

    Rows and frames are found by their number, never by a time that is nearly theirs. The seed of an episode is its
    index.
    """

    def __init__(
        self, root: Path | str, mapping: SchemaMapping, episodes: Sequence[int] | None = None, cache_bytes: int = 0
    ) -> None:
        """Open a dataset.

        Args:
            root: Its folder.
            mapping: The meaning of its features.
            episodes: Indices of the episodes to read, in this order; all by default.
            cache_bytes: Decoded episodes kept in memory, the least recently used leaving first.

        Raises:
            RobomemError: no LeRobotDataset v3, no such episode, a mapping that does not fit, or a file that is missing
                or damaged.
        """
        schema = read_schema(root)
        self._root, self._robot = schema.root, schema.robot_type
        self._mapping = mapping = bind_mapping(mapping, schema)
        self._videos = {field for field in mapping.cameras.values() if schema.fields[field].dtype == "video"}
        self._tables = LeRobotTables(schema.root, sorted(self._videos))
        super().__init__(choose_episodes(schema.root, len(self._tables.episodes), episodes), cache_bytes)
        shapes = {name: schema.fields[field].shape for name, field in mapping.cameras.items()}
        self._embodiment = EmbodimentSpec(
            cameras=tuple(CameraSpec(name=name, height=shape[0], width=shape[1]) for name, shape in shapes.items()),
            proprio=mapping.proprio.spec,
            action=mapping.action.spec,
            action_dt=mapping.period or 1 / self._tables.info["fps"],
        )

    @property
    def embodiment(self) -> EmbodimentSpec:
        """The robot that the episodes were recorded with."""
        return self._embodiment

    @property
    def provenance(self) -> dict[str, Any]:
        """JSON values that describe the dataset as a whole."""
        return {"robot_type": self._robot, "mapping": self._mapping.name}

    @property
    def lengths(self) -> tuple[int, ...]:
        """Ticks of each episode."""
        return tuple(self._tables.episodes[index]["length"] for index in self.indices)

    @property
    def seeds(self) -> tuple[int, ...]:
        """Index of each episode: the dataset knows no seed."""
        return self.indices

    @property
    def successes(self) -> tuple[bool, ...]:
        """Whether each episode reached success at any tick; read from the rows where the dataset has it."""
        if isinstance(self._mapping.success, bool):
            return (self._mapping.success,) * len(self)
        return tuple(bool(self.without_images(position).success.any()) for position in range(len(self)))

    def _read(self, position: int, cameras: Sequence[CameraSpec]) -> Episode:
        mapping, index = self._mapping, self.indices[position]
        images = [field for camera in cameras if (field := mapping.cameras[camera.name]) not in self._videos]
        table, path = self._tables.read_rows(index, [*vector_fields(mapping), self._instruction_field, *images])
        columns = _columns(table, mapping, path)
        episode = Episode(
            images={camera.name: self._frames(table, index, camera, path) for camera in cameras},
            **assemble_vectors(mapping, columns, len(table), self._embodiment.action_dt),
            instruction=self._instruction(table, index, path),
            seed=index,
        )
        return refuse_non_finite(episode, path)

    def _frames(self, table: pa.Table, index: int, camera: CameraSpec, path: Path) -> ndarray:
        field = self._mapping.cameras[camera.name]
        if field in self._videos:
            clip = find_clip(self._root, self._tables.info, self._tables.episodes[index], field)
            return freeze(read_clip(clip, camera.height, camera.width))
        return read_images(table[field], camera, path)

    @property
    def _instruction_field(self) -> str:
        return "task_index" if self._mapping.instruction == TASK else self._mapping.instruction

    def _instruction(self, table: pa.Table, index: int, path: Path) -> str:
        found = table[self._instruction_field].unique().to_pylist()
        if len(found) != 1:
            raise damaged(path, f"episode {index} has {len(found)} instructions in place of one")
        if self._mapping.instruction != TASK:
            return str(found[0])
        if found[0] not in self._tables.tasks:
            raise damaged(path, f"episode {index} has task {found[0]}, which has no text")
        return self._tables.tasks[found[0]]


def _columns(table: pa.Table, mapping: SchemaMapping, path: Path) -> dict[str, ndarray]:
    """Numbers of the mapped fields, (T, N), of vectors joined as the mapping wants them."""
    columns = {name: read_values(table[name]) for name in vector_fields(mapping)}
    for vector in (mapping.proprio, mapping.action):
        if sum(columns[key].size for key in vector.keys) != len(table) * vector.spec.size:
            raise damaged(path, f"{' and '.join(vector.keys)} has not {vector.spec.size} numbers in every row")
    with reading(path):
        return {name: values.reshape(len(table), -1) for name, values in columns.items()}
