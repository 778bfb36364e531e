"""What readers of every format share: a chosen subset in a fixed order, and a cache of decoded episodes."""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from pathlib import Path
from threading import Lock

from cachetools import LRUCache

from robomem.datasets.config import FrameCodec
from robomem.datasets.encoding import EncodedEpisode, encode
from robomem.episode import Episode
from robomem.errors import RobomemError
from robomem.spec import CameraSpec, EmbodimentSpec


class CachedEpisodes(ABC):
    """Episodes by position, the most recently used of them in memory."""

    def __init__(self, indices: Sequence[int], cache_bytes: int) -> None:
        """Begin with an empty cache.

        Args:
            indices: Index in the dataset of each episode.
            cache_bytes: Decoded episodes kept in memory, the least recently used leaving first.
        """
        self.indices = tuple(indices)
        """Index in the dataset of each episode of this reader."""
        self._cache: LRUCache[int, Episode] = LRUCache(cache_bytes, getsizeof=episode_bytes)
        self._lock = Lock()

    @property
    @abstractmethod
    def embodiment(self) -> EmbodimentSpec:
        """The robot that the episodes were recorded with."""

    @abstractmethod
    def _read(self, position: int, cameras: Sequence[CameraSpec]) -> Episode:
        """Read an episode with some of its cameras."""

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

    @property
    def codec(self) -> FrameCodec:
        """How frames are stored, where RoboMem wrote them; what loses nothing otherwise."""
        return FrameCodec()

    def encoded(self, position: int, codec: FrameCodec) -> EncodedEpisode:
        """The episode at a position, ready to be written; see `encode`."""
        return encode(self[position], self.embodiment, codec)

    def __iter__(self) -> Iterator[Episode]:
        """The episodes in order."""
        return (self[position] for position in range(len(self)))

    def without_images(self, position: int) -> Episode:
        """The episode at a position with no camera, read without touching the frames."""
        return self._read(range(len(self))[position], ())


def choose_episodes(root: Path, total: int, episodes: Sequence[int] | None) -> tuple[int, ...]:
    """Indices of the chosen episodes of a dataset, by default of all.

    Raises:
        RobomemError: there is no such episode, or none at all.
    """
    indices = tuple(range(total) if episodes is None else episodes)
    unknown = [i for i in indices if not 0 <= i < total]
    if unknown:
        raise RobomemError(f"{root} has episodes 0 to {total - 1}; there is no episode {unknown[0]}")
    if not indices:
        raise RobomemError(f"{root} has no episode to read; collect some with `robomem collect`")
    return indices


def episode_bytes(episode: Episode) -> int:
    """Memory that an episode's arrays take."""
    vectors = (episode.proprio, episode.actions, episode.timestamps, episode.reward, episode.success)
    return sum(array.nbytes for array in (*episode.images.values(), *vectors))
