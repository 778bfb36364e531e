"""What every recorded dataset looks like to the rest of RoboMem, whichever format it lies in on the disk."""

from collections.abc import Iterator
from typing import Any, Protocol

from robomem.datasets.config import FrameCodec
from robomem.datasets.encoding import EncodedEpisode
from robomem.episode import Episode
from robomem.spec import EmbodimentSpec


class EpisodeSource(Protocol):
    """Whole episodes in a fixed order, or a subset of them; arrays of what it gives are read-only."""

    @property
    def embodiment(self) -> EmbodimentSpec:
        """The robot that the episodes were recorded with."""
        ...

    @property
    def provenance(self) -> dict[str, Any]:
        """JSON values that describe the dataset as a whole."""
        ...

    @property
    def indices(self) -> tuple[int, ...]:
        """Index in the dataset of each episode of this source."""
        ...

    @property
    def lengths(self) -> tuple[int, ...]:
        """Ticks of each episode."""
        ...

    @property
    def seeds(self) -> tuple[int, ...]:
        """Seed of each episode; its index where the dataset knows none."""
        ...

    @property
    def successes(self) -> tuple[bool, ...]:
        """Whether each episode reached success at any tick."""
        ...

    def __len__(self) -> int:
        """Number of episodes."""
        ...

    def __getitem__(self, position: int) -> Episode:
        """The episode at a position of this source; raises `RobomemError` if it is missing or damaged."""
        ...

    def __iter__(self) -> Iterator[Episode]:
        """The episodes in order."""
        ...

    @property
    def codec(self) -> FrameCodec:
        """How frames are stored, where RoboMem wrote them; what loses nothing otherwise."""
        ...

    def encoded(self, position: int, codec: FrameCodec) -> EncodedEpisode:
        """The episode at a position, ready to be written; frames that are stored so already are not encoded again."""
        ...

    def without_images(self, position: int) -> Episode:
        """The episode at a position with no camera, read without decoding a frame."""
        ...
