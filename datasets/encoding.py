"""Episodes as they are stored: PNG frames or videos, columns and statistics.

`encode` needs no dataset on disk, so the processes that produce episodes call it and send its result, which pickles
small, to the one process that writes.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import cv2
import numpy as np
from jaxtyping import Float, UInt8
from numpy import ndarray

from robomem.datasets.config import FrameCodec
from robomem.datasets.video_encoding import decode_video, encode_video
from robomem.episode import Episode
from robomem.errors import RobomemError
from robomem.spec import EmbodimentSpec

QUANTILES = (0.01, 0.10, 0.50, 0.90, 0.99)
# Run lengths compress noisy renderings as well as the default strategy does, in two thirds of the time.
_PNG = [cv2.IMWRITE_PNG_COMPRESSION, 1, cv2.IMWRITE_PNG_STRATEGY, cv2.IMWRITE_PNG_STRATEGY_RLE]

FeatureStatistics = Mapping[str, ndarray]
"""`min`, `max`, `mean`, `std`, `count` and quantiles `q01`...`q99` of one feature, shaped as LeRobot does."""


@dataclass(frozen=True, kw_only=True)
class StoredFrames:
    """The frames of a camera through an episode, as they are stored."""

    data: tuple[bytes, ...] | bytes
    """One PNG per tick, or one mp4 file."""
    last: UInt8[ndarray, "Y X 3"]
    """What the last frame is decoded to."""
    statistics: FeatureStatistics
    """Of what the frames are decoded to."""


@dataclass(frozen=True, kw_only=True)
class EncodedEpisode:
    """A checked episode, ready to be written."""

    embodiment: EmbodimentSpec
    """The specification it was checked against."""
    codec: FrameCodec
    """How the frames are stored."""
    frames: Mapping[str, StoredFrames]
    """By camera."""
    columns: Mapping[str, ndarray]
    """By LeRobot feature, (T,) or (T, N)."""
    statistics: Mapping[str, FeatureStatistics]
    """By LeRobot feature."""
    instruction: str
    seed: int
    success: bool
    """Whether the task's success condition held at any tick."""
    provenance: Mapping[str, Any]

    def __len__(self) -> int:
        """Number of ticks."""
        return len(self.columns["action"])


def encode(episode: Episode, embodiment: EmbodimentSpec, codec: FrameCodec | None = None) -> EncodedEpisode:
    """Check an episode, compress its frames and compute its statistics.

    Args:
        episode: To be stored.
        embodiment: The robot of the dataset.
        codec: How frames are stored; as PNG by default.

    Raises:
        SpecMismatch: the episode does not fit the embodiment.
        NonFiniteError: a NaN or an infinity in its numbers.
        RobomemError: it has no tick, or the codec cannot store its frames.
    """
    codec = codec or FrameCodec()
    episode.check(embodiment)
    if not len(episode):
        raise RobomemError(f"the episode with seed {episode.seed} has no tick; record at least one")
    images = {camera.name: episode.images[camera.name] for camera in embodiment.cameras}
    frames = {name: store(pixels, embodiment.fps, codec) for name, pixels in images.items()}
    return join(frames, episode, embodiment, codec)


def join(
    frames: Mapping[str, StoredFrames], episode: Episode, embodiment: EmbodimentSpec, codec: FrameCodec
) -> EncodedEpisode:
    """Frames that are stored already, and the rest of an episode, whose own images are left alone."""
    columns = {
        "observation.state": np.asarray(episode.proprio, np.float32),
        "action": np.asarray(episode.actions, np.float32),
        "next.reward": np.asarray(episode.reward, np.float32),
        "next.success": np.asarray(episode.success, np.bool_),
        "capture_time": np.asarray(episode.timestamps, np.float64),
    }
    statistics = {image_feature(name): stored.statistics for name, stored in frames.items()}
    return EncodedEpisode(
        embodiment=embodiment,
        codec=codec,
        frames=frames,
        columns=columns,
        statistics=statistics | {name: vector_statistics(column) for name, column in columns.items()},
        instruction=episode.instruction,
        seed=int(episode.seed),
        success=bool(columns["next.success"].any()),
        provenance=episode.provenance,
    )


def store(frames: UInt8[ndarray, "T Y X 3"], fps: int, codec: FrameCodec) -> StoredFrames:
    """Compress the frames of a camera.

    Raises:
        RobomemError: the codec cannot store them.
    """
    if codec.is_video:
        data = encode_video(frames, fps, codec)
        frames = decode_video(data, frames)
    else:
        data = tuple(map(encode_png, frames))
    return StoredFrames(data=data, last=np.array(frames[-1]), statistics=image_statistics(frames))


def image_feature(camera: str) -> str:
    """LeRobot's name for the frames of a camera."""
    return f"observation.images.{camera}"


def encode_png(frame: UInt8[ndarray, "Y X 3"]) -> bytes:
    """Compress an RGB frame without loss."""
    done, data = cv2.imencode(".png", cv2.cvtColor(frame, cv2.COLOR_RGB2BGR), _PNG)
    if not done:
        raise RobomemError(f"OpenCV cannot encode a frame of shape {frame.shape} and type {frame.dtype} as PNG")
    return data.tobytes()


def decode_png(data: bytes) -> UInt8[ndarray, "Y X 3"] | None:
    """RGB frame of a PNG; None if it is damaged."""
    frame = cv2.imdecode(np.frombuffer(data, np.uint8), cv2.IMREAD_COLOR) if data else None
    return None if frame is None else cv2.cvtColor(frame, cv2.COLOR_BGR2RGB)


def vector_statistics(values: ndarray) -> FeatureStatistics:
    """Statistics over the ticks of (T,) or (T, N) numbers; each has shape (1,) or (N,)."""
    values = values.astype(np.float64).reshape(len(values), -1)
    quantiles = np.quantile(values, QUANTILES, axis=0, method="inverted_cdf")
    return {
        "min": values.min(axis=0),
        "max": values.max(axis=0),
        "mean": values.mean(axis=0),
        "std": values.std(axis=0),
        "count": np.array([len(values)]),
        **{_quantile_name(q): row for q, row in zip(QUANTILES, quantiles, strict=True)},
    }


def image_statistics(frames: UInt8[ndarray, "T Y X 3"]) -> FeatureStatistics:
    """Exact statistics per channel, in [0, 1], from the histogram of all pixels; each has shape (3, 1, 1)."""
    histogram = np.zeros((3, 256))
    for frame in frames:
        for channel in range(3):
            histogram[channel] += cv2.calcHist([frame], [channel], None, [256], [0, 256])[:, 0]
    weights, levels = (histogram / histogram.sum(axis=1, keepdims=True), np.arange(256) / 255.0)
    mean, cumulative = weights @ levels, weights.cumsum(axis=1)
    seen = histogram > 0
    numbers = {
        "min": levels[seen.argmax(axis=1)],
        "max": levels[255 - seen[:, ::-1].argmax(axis=1)],
        "mean": mean,
        "std": np.sqrt((weights * (levels - mean[:, None]) ** 2).sum(axis=1)),
        **{_quantile_name(q): levels[(cumulative >= q).argmax(axis=1)] for q in QUANTILES},
    }
    return {name: value.reshape(3, 1, 1) for name, value in numbers.items()} | {"count": np.array([len(frames)])}


def merge_statistics(parts: Sequence[Mapping[str, FeatureStatistics]]) -> dict[str, dict[str, ndarray]]:
    """Statistics of several episodes together; quantiles are averaged by count, as LeRobot does."""
    return {feature: _merge([part[feature] for part in parts]) for feature in parts[0]}


def _merge(parts: Sequence[FeatureStatistics]) -> dict[str, ndarray]:
    stacked = {name: np.stack([part[name] for part in parts]) for name in parts[0]}
    counts = stacked["count"]
    share = (counts / counts.sum()).reshape(len(parts), *[1] * (stacked["mean"].ndim - 1))

    def average(values: Float[ndarray, "N ..."]) -> ndarray:
        return (share * values).sum(axis=0)

    mean = average(stacked["mean"])
    merged = {_quantile_name(q): average(stacked[_quantile_name(q)]) for q in QUANTILES}
    merged |= {"min": stacked["min"].min(axis=0), "max": stacked["max"].max(axis=0), "mean": mean}
    merged["std"] = np.sqrt(average(stacked["std"] ** 2 + (stacked["mean"] - mean) ** 2))
    return merged | {"count": counts.sum(axis=0)}


def _quantile_name(quantile: float) -> str:
    return f"q{round(quantile * 100):02d}"
