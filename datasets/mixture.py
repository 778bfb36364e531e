"""Several datasets of one robot as one, each seen as often as its weight says."""

from collections.abc import Iterator, Sequence
from itertools import accumulate
from typing import Any

import numpy as np

from robomem.datasets.config import FrameCodec
from robomem.datasets.encoding import EncodedEpisode
from robomem.datasets.source import EpisodeSource
from robomem.episode import Episode
from robomem.spec import EmbodimentSpec


class Mixture:
    """The episodes of some sources, one source after another; an `EpisodeSource`."""

    def __init__(self, sources: Sequence[EpisodeSource], names: Sequence[str]) -> None:
        """Join sources.

        Args:
            sources: At least one.
            names: What errors call them.

        Raises:
            SpecMismatch: the robot of one differs from that of the first.
        """
        self._sources = tuple(sources)
        self._ends = tuple(accumulate(map(len, sources)))
        first, *others = zip(sources, names, strict=True)
        for source, name in others:
            first[0].embodiment.check(source.embodiment, first[1], name, "mix datasets of one robot only")

    @property
    def embodiment(self) -> EmbodimentSpec:
        """The robot of all of them."""
        return self._sources[0].embodiment

    @property
    def provenance(self) -> dict[str, Any]:
        """That of each source."""
        return {"mixture": [source.provenance for source in self._sources]}

    @property
    def indices(self) -> tuple[int, ...]:
        """Numbers of the episodes in the mixture."""
        return tuple(range(len(self)))

    @property
    def lengths(self) -> tuple[int, ...]:
        """Ticks of each episode."""
        return tuple(length for source in self._sources for length in source.lengths)

    @property
    def seeds(self) -> tuple[int, ...]:
        """Seed of each episode."""
        return tuple(seed for source in self._sources for seed in source.seeds)

    @property
    def successes(self) -> tuple[bool, ...]:
        """Whether each episode reached success at any tick."""
        return tuple(success for source in self._sources for success in source.successes)

    def __len__(self) -> int:
        """Number of episodes."""
        return self._ends[-1]

    def __getitem__(self, position: int) -> Episode:
        """The episode at a position."""
        source, position = self._find(position)
        return source[position]

    def __iter__(self) -> Iterator[Episode]:
        """The episodes in order."""
        return (episode for source in self._sources for episode in source)

    @property
    def codec(self) -> FrameCodec:
        """That of all sources; where they differ, what loses nothing."""
        codecs = {source.codec for source in self._sources}
        return codecs.pop() if len(codecs) == 1 else FrameCodec()

    def encoded(self, position: int, codec: FrameCodec) -> EncodedEpisode:
        """The episode at a position, ready to be written."""
        source, position = self._find(position)
        return source.encoded(position, codec)

    def without_images(self, position: int) -> Episode:
        """The episode at a position with no camera."""
        source, position = self._find(position)
        return source.without_images(position)

    def _find(self, position: int) -> tuple[EpisodeSource, int]:
        """The source that a position lies in, and the position there."""
        position = range(len(self))[position]
        number = int(np.searchsorted(self._ends, position, side="right"))
        return self._sources[number], position - (0, *self._ends)[number]
