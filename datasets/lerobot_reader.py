"""Reads whole episodes, decoding every frame once."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy import ndarray

from robomem.datasets import lerobot_format as form
from robomem.datasets.assembly import freeze
from robomem.datasets.cached import CachedEpisodes, choose_episodes
from robomem.datasets.config import FrameCodec
from robomem.datasets.encoding import EncodedEpisode, FeatureStatistics, StoredFrames, decode_png, image_feature, join
from robomem.datasets.lerobot_index import damaged, episode_statistics, load_index, read_groups, reading
from robomem.datasets.video_frames import CLIP_COLUMNS, find_clip, read_clip
from robomem.datasets.video_remux import cut_clip
from robomem.episode import Episode
from robomem.errors import NonFiniteError
from robomem.spec import CameraSpec, EmbodimentSpec


class EpisodeReader(CachedEpisodes):
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
        super().__init__(choose_episodes(Path(root), self._index.info["total_episodes"], episodes), cache_bytes)
        self._videos = form.video_features(self._index.info["features"])
        clips = [f"{form.VIDEOS}/{feature}/{column}" for feature in self._videos for column in CLIP_COLUMNS]
        with reading(self._index.root / form.EPISODES):
            self._rows = (
                self._index.episodes.select(
                    ["episode_index", "tasks", "length", "seed", "success", "provenance", *clips]
                )
                .take(self.indices)
                .to_pylist()
            )
        for row in self._rows:
            if missing := [name for name in ("seed", "success", "provenance") if row[name] is None]:
                raise damaged(self._index.root / form.EPISODES, f"episode {row['episode_index']} has no {missing[0]}")
        self._places = self._index.places

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

    @property
    def codec(self) -> FrameCodec:
        """How frames are stored."""
        return form.frame_codec(self._index.info["features"])

    def encoded(self, position: int, codec: FrameCodec) -> EncodedEpisode:
        """The episode at a position, ready to be written; its frames are copied if they are stored so already."""
        if codec != self.codec:
            return super().encoded(position, codec)
        episode, index = self.without_images(position), self.indices[position]
        (statistics,) = episode_statistics(self._index.episodes.slice(index, 1))
        frames = {
            camera.name: self._stored(position, camera, statistics[image_feature(camera.name)])
            for camera in self.embodiment.cameras
        }
        return join(frames, episode, self.embodiment, codec)

    def _stored(self, position: int, camera: CameraSpec, statistics: FeatureStatistics) -> StoredFrames:
        """The frames of a camera as they lie in its file."""
        feature = image_feature(camera.name)
        if feature in self._videos:
            clip = find_clip(self._index.root, self._index.info, self._rows[position], feature)
            last = replace(clip, first=clip.first + clip.count - 1, count=1)
            return StoredFrames(
                data=cut_clip(clip), last=read_clip(last, camera.height, camera.width)[0], statistics=statistics
            )
        table, path = self._read_rows(position, [feature])
        last = read_images(table[feature].slice(len(table) - 1), camera, path)[0]
        pngs = table[feature].combine_chunks().field("bytes").to_pylist()
        return StoredFrames(data=tuple(pngs), last=last, statistics=statistics)

    def _read_rows(self, position: int, columns: Sequence[str]) -> tuple[pa.Table, Path]:
        """Columns of an episode's rows, and the file that they lie in."""
        file, group = self._places[self.indices[position]]
        path, metadata = self._index.files[file].path, self._index.files[file].metadata
        table = read_groups(path, metadata, [group], ["episode_index", *columns])
        found = table["episode_index"][0].as_py()
        if found != self.indices[position]:
            raise damaged(path, f"it holds episode {found} in the place of episode {self.indices[position]}")
        return table, path

    def _read(self, position: int, cameras: Sequence[CameraSpec]) -> Episode:
        names = ["observation.state", "action", "capture_time", "next.reward", "next.success"]
        frames = [feature for camera in cameras if (feature := image_feature(camera.name)) not in self._videos]
        table, path = self._read_rows(position, [*names, *frames])
        row = self._rows[position]
        with reading(path):
            proprio, actions, timestamps, reward, success = (read_values(table[name]) for name in names)
            proprio, actions = proprio.reshape(len(table), -1), actions.reshape(len(table), -1)
        episode = Episode(
            images={camera.name: self._frames(table, row, camera, path) for camera in cameras},
            proprio=proprio,
            actions=actions,
            timestamps=timestamps,
            reward=reward,
            success=success,
            instruction=row["tasks"][0],
            seed=row["seed"],
            provenance=json.loads(row["provenance"]),
        )
        return refuse_non_finite(episode, path)

    def _frames(self, table: pa.Table, row: Mapping[str, Any], camera: CameraSpec, path: Path) -> ndarray:
        feature = image_feature(camera.name)
        if feature in self._videos:
            clip = find_clip(self._index.root, self._index.info, row, feature)
            return freeze(read_clip(clip, camera.height, camera.width))
        return read_images(table[feature], camera, path)


def refuse_non_finite(episode: Episode, path: Path) -> Episode:
    """The episode itself.

    Raises:
        RobomemError: it holds a number that is not finite; names its seed and its file.
    """
    try:
        episode.check_finite()
    except NonFiniteError as error:
        raise damaged(path, error) from error
    return episode


def read_values(column: pa.ChunkedArray) -> ndarray:
    """Read-only numbers of a column in one dimension, those of vectors one after another."""
    array = column.combine_chunks()
    vectors = pa.types.is_fixed_size_list(array.type) or pa.types.is_list(array.type)
    return freeze((array.flatten() if vectors else array).to_numpy(zero_copy_only=False))


def read_images(column: pa.ChunkedArray, camera: CameraSpec, path: Path) -> ndarray:
    """Read-only (T, Y, X, 3) frames of a column of compressed images.

    Raises:
        RobomemError: one is missing, damaged or of another size; names the tick and the file.
    """
    frames = np.empty((len(column), camera.height, camera.width, 3), np.uint8)
    for tick, png in enumerate(column.combine_chunks().field("bytes")):
        frame = decode_png(png.as_py())
        if frame is None or frame.shape != frames.shape[1:]:
            raise damaged(path, f"frame {tick} of camera {camera.name} is no PNG of {camera.width} x {camera.height}")
        frames[tick] = frame
    return freeze(frames)
