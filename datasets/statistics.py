"""Statistics of a dataset: for normalisation, in one pass and constant memory; and of the time between ticks."""

import numpy as np
from numpy import ndarray

from robomem.datasets.augment import EpisodeAugmentation, find_keyframes
from robomem.datasets.source import EpisodeSource
from robomem.statistics import Statistics, VectorStatistics

COMMON = 0.99
"""Share of the gaps; the few longest were seen too seldom to be learned from."""


def compute_statistics(reader: EpisodeSource) -> Statistics:
    """Statistics of proprioception and actions over all ticks of a reader's episodes; no frame is decoded.

    A standard deviation may be zero: whoever divides by it sets the floor.
    """
    proprio, action = _Moments(), _Moments()
    for position in range(len(reader)):
        episode = reader.without_images(position)
        proprio.add(episode.proprio)
        action.add(episode.actions)
    return Statistics(proprio=proprio.result(), action=action.result(), ticks=proprio.count)


def common_gap(reader: EpisodeSource, augment: EpisodeAugmentation, seed: int) -> float:
    """The time in seconds that `COMMON` of the gaps between seen ticks stay within, in the first pass over the data.

    Args:
        reader: The episodes; no frame is decoded.
        augment: Which drops ticks.
        seed: Of the run.
    """
    gaps: list[ndarray] = [np.zeros(1)]  # so that there is one where no episode has two ticks
    for position, index in enumerate(reader.indices):
        episode = reader.without_images(position)
        seen = augment.ticks(seed, 0, index, find_keyframes(episode.actions))
        gaps.append(np.diff(episode.timestamps[seen]))
    return float(np.quantile(np.concatenate(gaps), COMMON, method="inverted_cdf"))


class _Moments:
    """Running count, mean, sum of squared deviations and range (Chan et al., 1983), in float64."""

    def __init__(self) -> None:
        self.count = 0
        self._mean: ndarray = np.zeros(1)
        self._squares: ndarray = np.zeros(1)
        self._low: ndarray = np.array([np.inf])
        self._high: ndarray = np.array([-np.inf])

    def add(self, values: ndarray) -> None:
        """Take in (T, N) numbers."""
        values = values.astype(np.float64)
        count, mean = len(values), values.mean(axis=0)
        difference, total = mean - self._mean, self.count + len(values)
        self._squares = (
            self._squares + ((values - mean) ** 2).sum(axis=0) + difference**2 * (self.count * count / total)
        )
        self._mean = self._mean + difference * (count / total)
        self._low, self._high = (np.minimum(self._low, values.min(axis=0)), np.maximum(self._high, values.max(axis=0)))
        self.count = total

    def result(self) -> VectorStatistics:
        """Statistics of all numbers so far."""
        std = np.sqrt(self._squares / self.count)
        numbers = {"mean": self._mean, "std": std, "low": self._low, "high": self._high}
        return VectorStatistics(**{name: tuple(value.tolist()) for name, value in numbers.items()})
