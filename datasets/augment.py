"""Augmentation that is the same through an episode, so that what a policy must remember stays consistent."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float, Int, UInt8
from numpy import ndarray

from robomem.errors import RobomemError

_STREAM, _TICKS, _TIME = 1, 2, 3
"""Keep these random numbers apart from each other and from those of the data order."""


@dataclass(frozen=True)
class DrawnAugmentation:
    """The change applied to every frame of one episode."""

    channels: tuple[int, int, int]
    """Source channel of each channel, for all cameras."""
    shifts: Mapping[str, tuple[int, int]]
    """Pixels (down, right) by camera."""

    def apply(self, camera: str, frames: UInt8[ndarray, "T Y X 3"]) -> UInt8[ndarray, "T Y X 3"]:
        """The frames of a camera after the change."""
        return permute_channels(shift_frames(frames, *self.shifts[camera]), self.channels)


@dataclass(frozen=True, kw_only=True)
class EpisodeAugmentation:
    """What may change from episode to episode in training; never within an episode."""

    channel_permutation: float = 0.0
    """Probability of an episode that its colour channels are reordered, each of the six orders alike."""
    shift: int = 0
    """Largest shift of a camera's frames along each axis in pixels; border pixels are repeated."""

    keep: float = 1.0
    """Probability that a tick is seen. The first always is, and so are keyframes: ticks at which the demonstrator
    changes what it does. A dropped one only lengthens the time to the next, as a lost frame does, and costs nothing."""
    jitter: float = 0.0
    """Largest error of a measured time, as a share of the time to the nearest tick: what a busy computer makes."""

    def __post_init__(self) -> None:
        """Check the ranges."""
        if not 0 < self.keep <= 1:
            raise RobomemError(f"data.augmentation.keep={self.keep} is a probability, above 0 and up to 1")
        if not 0 <= self.channel_permutation <= 1:
            raise RobomemError(
                f"data.augmentation.channel_permutation={self.channel_permutation} is a probability, from 0 to 1"
            )
        if not 0 <= self.jitter < 0.5:
            raise RobomemError(f"data.augmentation.jitter={self.jitter} is a share, from 0 to less than a half")
        if self.shift < 0:
            raise RobomemError(f"data.augmentation.shift={self.shift} is a number of pixels, from 0 up")

    def require_recorded_frames(self) -> None:
        """Raise `RobomemError` if frames may change: what was encoded before cannot."""
        if changing := [name for name in ("channel_permutation", "shift") if getattr(self, name)]:
            settings = " ".join(f"data.augmentation.{name}=0" for name in changing)
            raise RobomemError(
                f"data.cache_features=true takes every frame as it was recorded; set {settings}, or "
                "data.cache_features=false"
            )

    def ticks(self, seed: int, epoch: int, episode: int, keyframes: Bool[ndarray, " T"]) -> Int[ndarray, " kept"]:
        """The ticks of one episode that are seen, in order; a pure function of the arguments and the settings."""
        kept = np.random.default_rng([_TICKS, seed, epoch, episode]).random(len(keyframes)) < self.keep
        return np.flatnonzero(kept | keyframes)

    def times(self, seed: int, epoch: int, episode: int, timestamps: Float[ndarray, " T"]) -> Float[ndarray, " T"]:
        """Measured times of one episode's ticks, still in order; a pure function of the arguments and the settings."""
        if not self.jitter:
            return timestamps
        gaps = np.diff(timestamps)
        room = np.minimum(np.concatenate([[0.0], gaps]), np.concatenate([gaps, [np.inf]]))
        errors = np.random.default_rng([_TIME, seed, epoch, episode]).uniform(-1, 1, len(timestamps))
        return timestamps + self.jitter * errors * room

    def draw(self, seed: int, epoch: int, episode: int, cameras: Sequence[str]) -> DrawnAugmentation:
        """The change of one episode: a pure function of the arguments and the settings."""
        rng = np.random.default_rng([_STREAM, seed, epoch, episode])
        permuted, order = rng.random() < self.channel_permutation, rng.permutation(3)
        shifts = rng.integers(-self.shift, self.shift, size=(len(cameras), 2), endpoint=True)
        red, green, blue = order.tolist() if permuted else (0, 1, 2)
        return DrawnAugmentation(
            (red, green, blue),
            {name: (down, right) for name, (down, right) in zip(cameras, shifts.tolist(), strict=True)},
        )


def find_keyframes(actions: Float[ndarray, "T A"]) -> Bool[ndarray, " T"]:
    """The first tick, and those at which an entry of the action jumps by more than half of its range in the episode."""
    span = np.ptp(actions, axis=0).clip(1e-6)
    jumps = np.abs(np.diff(actions, axis=0)) > span / 2
    return np.concatenate([[True], jumps.any(axis=1)])


def permute_channels(frames: UInt8[ndarray, "T Y X 3"], channels: tuple[int, int, int]) -> UInt8[ndarray, "T Y X 3"]:
    """Frames whose channel i is channel `channels[i]` of the given ones."""
    if channels == (0, 1, 2):
        return frames
    permuted = np.empty_like(frames)
    for target, source in enumerate(channels):
        permuted[..., target] = frames[..., source]
    return permuted


def shift_frames(frames: UInt8[ndarray, "T Y X 3"], down: int, right: int) -> UInt8[ndarray, "T Y X 3"]:
    """Frames moved by some pixels, with the border repeated."""
    if down == right == 0:
        return frames
    height, width = frames.shape[1:3]
    pad = ((0, 0), (max(down, 0), max(-down, 0)), (max(right, 0), max(-right, 0)), (0, 0))
    top, left = max(-down, 0), max(-right, 0)
    return np.pad(frames, pad, mode="edge")[:, top : top + height, left : left + width]
