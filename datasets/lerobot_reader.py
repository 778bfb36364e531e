"""Reads whole episodes, decoding every frame once."""

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from threading import Lock
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from cachetools import LRUCache
from numpy import ndarray

from robomem.datasets.encoding import decode_png, image_feature
from robomem.datasets.lerobot_index import damaged, load_index, reading
from robomem.episode import Episode
from robomem.errors import NonFiniteError, RobomemError
from robomem.spec import CameraSpec, EmbodimentSpec


class EpisodeReader:
    """Episodes of a dataset in order, or a subset of them; `reader[i]` is an `Episode` whose arrays are read-only."""

    def __init__(self, root: Path | str, episodes: Sequence[int] | None = None, cache_bytes: int = 0) -> None:
        """Open a dataset.

        Args:
            root: Its folder.
            episodes: Indices of the episodes to read, in this order; all by default.
            cache_bytes: Decoded episodes kept in memory, the least recently used leaving first.

        Raises:
            RobomemError: no dataset, no such episode, or a file that is missing or damaged.
        """
        self._index = load_index(Path(root))
        total = self._index.info["total_episodes"]
        self.indices = tuple(range(total) if episodes is None else episodes)
        """Index in the dataset of each episode of this reader."""
        unknown = [i for i in self.indices if not 0 <= i < total]
        if unknown:
            raise RobomemError(f"{root} has episodes 0 to {total - 1}; there is no episode {unknown[0]}")
        if not self.indices:
            raise RobomemError(f"{root} has no episode to read; collect some with `robomem collect`")
        self._rows = (
            self._index.episodes.select(["tasks", "length", "seed", "success", "provenance"])
            .take(self.indices)
            .to_pylist()
        )
        self._places = self._index.places
        self._cache: LRUCache[int, Episode] = LRUCache(cache_bytes, getsizeof=episode_bytes)
        self._lock = Lock()

    @property
    def embodiment(self) -> EmbodimentSpec:
        """The robot that the episodes were recorded with."""
        return self._index.embodiment

    @property
    def provenance(self) -> dict[str, Any]:
        """JSON values that describe the dataset as a whole."""
        return self._index.provenance

    @property
    def lengths(self) -> tuple[int, ...]:
        """Ticks of each episode."""
        return tuple(row["length"] for row in self._rows)

    @property
    def seeds(self) -> tuple[int, ...]:
        """Seed of each episode."""
        return tuple(row["seed"] for row in self._rows)

    @property
    def successes(self) -> tuple[bool, ...]:
        """Whether each episode reached success at any tick."""
        return tuple(row["success"] for row in self._rows)

    def __len__(self) -> int:
        """Number of episodes."""
        return len(self.indices)

    def __getitem__(self, position: int) -> Episode:
        """The episode at a position of this reader, from the cache if it is there.

        Raises:
            RobomemError: its file is missing or damaged, or holds a number that is not finite.
        """
        position = range(len(self))[position]
        with self._lock:
            cached = self._cache.get(position)
        if cached is not None:
            return cached
        episode = self._read(position, self.embodiment.cameras)
        if episode_bytes(episode) <= self._cache.maxsize:
            with self._lock:
                self._cache[position] = episode
        return episode

    def __iter__(self) -> Iterator[Episode]:
        """The episodes in order."""
        return (self[position] for position in range(len(self)))

    def without_images(self, position: int) -> Episode:
        """The episode at a position with no camera, read without touching the frames."""
        return self._read(position, ())

    def _read(self, position: int, cameras: Sequence[CameraSpec]) -> Episode:
        file, group = self._places[self.indices[position]]
        path = self._index.files[file].path
        names = ["observation.state", "action", "capture_time", "next.reward", "next.success"]
        metadata = self._index.files[file].metadata
        with reading(path), pq.ParquetFile(path, metadata=metadata, page_checksum_verification=True) as parquet:
            frames = [image_feature(camera.name) for camera in cameras]
            table = parquet.read_row_group(group, ["episode_index", *names, *frames])
        found = table["episode_index"][0].as_py()
        if found != self.indices[position]:
            raise damaged(path, f"it holds episode {found} in the place of episode {self.indices[position]}")
        row = self._rows[position]
        proprio, actions, timestamps, reward, success = (_values(table[name]) for name in names)
        episode = Episode(
            images={camera.name: _frames(table, camera, path) for camera in cameras},
            proprio=proprio.reshape(len(table), -1),
            actions=actions.reshape(len(table), -1),
            timestamps=timestamps,
            reward=reward,
            success=success,
            instruction=row["tasks"][0],
            seed=row["seed"],
            provenance=json.loads(row["provenance"]),
        )
        try:
            episode.check_finite()
        except NonFiniteError as error:
            raise damaged(path, error) from error
        return episode


def episode_bytes(episode: Episode) -> int:
    """Memory that an episode's arrays take."""
    vectors = (episode.proprio, episode.actions, episode.timestamps, episode.reward, episode.success)
    return sum(array.nbytes for array in (*episode.images.values(), *vectors))


def _values(column: pa.ChunkedArray) -> ndarray:
    array = column.combine_chunks()
    values = array.flatten() if pa.types.is_fixed_size_list(array.type) else array
    return _frozen(values.to_numpy(zero_copy_only=False))


def _frames(table: pa.Table, camera: CameraSpec, path: Path) -> ndarray:
    frames = np.empty((len(table), camera.height, camera.width, 3), np.uint8)
    for tick, png in enumerate(table[image_feature(camera.name)].combine_chunks().field("bytes")):
        frame = decode_png(png.as_py())
        if frame is None or frame.shape != frames.shape[1:]:
            raise damaged(path, f"frame {tick} of camera {camera.name} is no PNG of {camera.width} x {camera.height}")
        frames[tick] = frame
    return _frozen(frames)


def _frozen(array: ndarray) -> ndarray:
    array.setflags(write=False)
    return array
