"""Training windows: B lanes of whole episodes in order, each window continuing where the previous one ended."""

from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from copy import copy
from dataclasses import replace
from functools import cached_property, partial

import numpy as np
import torch
from numpy import ndarray

from robomem.contract import Observation, Window
from robomem.datasets.augment import DrawnAugmentation, EpisodeAugmentation, find_keyframes
from robomem.datasets.embedding_cache import EmbeddingCache
from robomem.datasets.lanes import Lane, Piece, deal_lanes, draw_visits
from robomem.datasets.source import EpisodeSource
from robomem.episode import Episode
from robomem.errors import RobomemError

_PREFETCH = 2
"""Windows that a background thread assembles ahead of the one in use."""

View = Callable[[ndarray], ndarray]
"""What a camera shows at given ticks, or the features of that."""


class SequenceBatches:
    """Windows of B lanes.

    A lane is a stream of whole episodes; a new one may begin at any tick of a window (`is_first`), so only the end of
    an epoch is padded (`valid`). Every lane starts an epoch with a new episode. The windows are a pure function of the
    arguments and the epoch, whichever step the iteration begins at.
    """

    def __init__(
        self,
        reader: EpisodeSource,
        batch_size: int,
        window: int,
        horizon: int,
        seed: int,
        augment: EpisodeAugmentation | None = None,
        *,
        weights: Sequence[float] | None = None,
        shard: tuple[int, int] = (0, 1),
    ) -> None:
        """Describe the windows; nothing is read yet.

        Args:
            reader: The episodes.
            batch_size: Lanes of this process (B).
            window: Ticks of a window (T).
            horizon: Actions of a chunk (H).
            seed: Determines order and augmentation.
            augment: Change drawn for each episode and epoch; none by default.
            weights: Visits per epoch of each episode, in the mean; one by default.
            shard: This process's number, and the number of all that share the episodes; all make as many steps.

        Raises:
            RobomemError: fewer episodes than lanes, or a shift that leaves nothing of a camera's image.
        """
        self._rank, self._world_size = shard
        self._weights = [1.0] * len(reader) if weights is None else list(weights)
        visits = int(sum(self._weights))
        if visits < batch_size * self._world_size:
            raise RobomemError(
                f"{visits} episodes cannot fill {batch_size} lanes in each of {self._world_size} processes; "
                f"lower data.batch_size to {visits // self._world_size} or collect more episodes"
            )
        self._reader, self._augment, self._seed = (reader, augment or EpisodeAugmentation(), seed)
        for camera in reader.embodiment.cameras:
            if self._augment.shift >= min(camera.height, camera.width):
                raise RobomemError(
                    f"data.augmentation.shift={self._augment.shift} moves the image of {camera.name} "
                    f"({camera.height} x {camera.width} pixels) out of sight; lower it"
                )
        self._batch_size, self._window, self._horizon = batch_size, window, horizon
        self._features: EmbeddingCache | None = None

    def encoded(self, features: EmbeddingCache) -> "SequenceBatches":
        """The same windows, with features of the frames in place of the frames, which are not read.

        Raises:
            RobomemError: an augmentation changes frames.
        """
        self._augment.require_recorded_frames()
        batches = copy(self)
        batches._features = features
        return batches

    def num_steps(self, epoch: int) -> int:
        """Windows in an epoch, the same for every process."""
        return self._steps(self._deal(epoch))

    def epoch(self, epoch: int, start_step: int = 0) -> Iterator[Window]:
        """The windows of an epoch from a step on; windows before it are not read.

        Raises:
            RobomemError: a file is missing or damaged.
        """
        lanes = self._deal(epoch)
        own = lanes[self._rank * self._batch_size : (self._rank + 1) * self._batch_size]
        sizes = self._window, self._horizon
        assembly = _Assembly(self._reader, self._features, own, *sizes, self._augment, self._seed, epoch)
        steps = iter(range(start_step, self._steps(lanes)))
        pending: deque[Future[Window]] = deque()
        pool = ThreadPoolExecutor(1, thread_name_prefix="windows")
        try:
            for step in steps:
                pending.append(pool.submit(assembly.window, step))
                if len(pending) > _PREFETCH:
                    yield pending.popleft().result()
            while pending:
                yield pending.popleft().result()
        finally:
            pool.shutdown(cancel_futures=True)

    def _deal(self, epoch: int) -> list[Lane]:
        lengths = self._reader.lengths
        if self._augment.keep < 1:
            episodes = zip(self._reader.indices, self._keyframes, strict=True)
            lengths = [len(self._augment.ticks(self._seed, epoch, *episode)) for episode in episodes]
        visits = draw_visits(self._weights, self._seed, epoch)
        return deal_lanes(lengths, visits, self._batch_size * self._world_size, self._seed, epoch)

    @cached_property
    def _keyframes(self) -> list[ndarray]:
        """Keyframes of every episode; read once, without its images."""
        return [find_keyframes(self._reader.without_images(i).actions) for i in range(len(self._reader))]

    def _steps(self, lanes: list[Lane]) -> int:
        return -(-max(lane.ticks for lane in lanes) // self._window)


class _Assembly:
    """Fills the windows of one epoch; used by one thread."""

    def __init__(
        self,
        reader: EpisodeSource,
        features: EmbeddingCache | None,
        lanes: list[Lane],
        window: int,
        horizon: int,
        augment: EpisodeAugmentation,
        seed: int,
        epoch: int,
    ) -> None:
        self._reader, self._lanes, self._window, self._horizon = (reader, lanes, window, horizon)
        self._features, self._augment, self._seed, self._epoch = features, augment, seed, epoch
        self._cameras = [camera.name for camera in reader.embodiment.cameras]
        self._current: dict[int, tuple[int, Episode, ndarray, Mapping[str, View]]] = {}

    def window(self, step: int) -> Window:
        """Window number `step` of the epoch."""
        arrays = self._empty()
        instructions: list[str] = []
        start = step * self._window
        for row, lane in enumerate(self._lanes):
            texts: list[str] = []
            for piece in lane.pieces(start, start + self._window):
                episode, kept, views = self._episode(row, piece.position)
                _fill({name: array[row] for name, array in arrays.items()}, piece, episode, kept, views)
                texts += [episode.instruction] * piece.ticks
            instructions += texts + [""] * (self._window - len(texts))
        tensors = {name: torch.from_numpy(array) for name, array in arrays.items()}
        views = {name: tensors.pop(_view(name)) for name in self._cameras}
        images, features = ({}, views) if self._features else (views, {})
        observation = Observation(images, tensors.pop("proprio"), tuple(instructions), features)
        return Window(observation=observation, **tensors)

    def _empty(self) -> dict[str, ndarray]:
        """Arrays of a window of padding."""
        embodiment = self._reader.embodiment
        rows, horizon = (len(self._lanes), self._window), self._horizon
        views = {_view(c.name): np.zeros((*rows, c.height, c.width, 3), np.uint8) for c in embodiment.cameras}
        if self._features:
            views = {name: np.zeros((*rows, *self._features.shape), np.float16) for name in views}
        return views | {
            "proprio": np.zeros((*rows, embodiment.proprio.size), np.float32),
            "dt": np.zeros(rows, np.float32),
            "is_first": np.zeros(rows, np.bool_),
            "valid": np.zeros(rows, np.bool_),
            "actions": np.zeros((*rows, horizon, embodiment.action.size), np.float32),
            "previous_action": np.zeros((*rows, embodiment.action.size), np.float32),
            "past_actions": np.zeros((*rows, horizon, embodiment.action.size), np.float32),
            "past_valid": np.zeros((*rows, horizon), np.bool_),
            "action_valid": np.zeros((*rows, horizon), np.bool_),
            "outcome": np.zeros((*rows, embodiment.proprio.size), np.float32),
        }

    def _episode(self, row: int, position: int) -> tuple[Episode, ndarray, Mapping[str, View]]:
        """The episode, its ticks and its views; kept while the lane is in it, so that it is decoded only once."""
        current = self._current.get(row)
        if current is None or current[0] != position:
            index = self._reader.indices[position]
            episode = self._reader.without_images(position) if self._features else self._reader[position]
            kept = self._augment.ticks(self._seed, self._epoch, index, find_keyframes(episode.actions))
            episode = replace(
                episode, timestamps=self._augment.times(self._seed, self._epoch, index, episode.timestamps)
            )
            current = self._current[row] = position, episode, kept, self._views(position, episode)
        return current[1:]

    def _views(self, position: int, episode: Episode) -> Mapping[str, View]:
        if self._features:
            return {name: features.__getitem__ for name, features in self._features[position].items()}
        change = self._augment.draw(self._seed, self._epoch, self._reader.indices[position], self._cameras)
        return {name: partial(_changed, change, name, frames) for name, frames in episode.images.items()}


def _changed(change: DrawnAugmentation, camera: str, frames: ndarray, ticks: ndarray) -> ndarray:
    return change.apply(camera, frames[ticks])


def _fill(row: dict[str, ndarray], piece: Piece, episode: Episode, kept: ndarray, views: Mapping[str, View]) -> None:
    """Write a piece, counted in kept ticks, into one row of the window's arrays."""
    ticks, target = kept[piece.first : piece.first + piece.ticks], slice(piece.at, piece.at + piece.ticks)
    before = np.concatenate([kept[:1], kept])[piece.first : piece.first + piece.ticks]
    for name, view in views.items():
        row[_view(name)][target] = view(ticks)
    horizon = row["actions"].shape[1]
    steps, past = ticks[:, None] + np.arange(horizon), ticks[:, None] + np.arange(-horizon, 0)
    row["proprio"][target] = episode.proprio[ticks]
    row["dt"][target] = episode.timestamps[ticks] - episode.timestamps[before]
    row["is_first"][piece.at] = piece.first == 0
    row["valid"][target] = True
    row["actions"][target] = episode.actions[np.minimum(steps, len(episode) - 1)]
    row["action_valid"][target] = steps < len(episode)
    row["previous_action"][target] = np.where((ticks == 0)[:, None], 0, episode.actions[before])
    row["past_actions"][target] = episode.actions[np.maximum(past, 0)]
    row["past_valid"][target] = past >= 0
    row["outcome"][target] = episode.proprio[-1]


def _view(camera: str) -> str:
    return f"views.{camera}"
