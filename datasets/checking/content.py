"""What a single episode of any format tells of itself: numbers, time, frames and instruction."""

from collections.abc import Iterator

import cv2
import numpy as np
from jaxtyping import Float, UInt8
from numpy import ndarray

from robomem.datasets.checking.finding import Finding
from robomem.episode import Episode

_GAP = 1.75
"""Steps of time longer than this many periods are gaps: one lost tick makes two periods, jitter less than this."""
_BLACK = 16
"""Brightest level of a black frame: a video codec does not give exact zeros."""
_BLACK_SHARE = 0.25
"""Of an episode's frames; a few dark ones may be a fade or a light that is switched."""
_SAME = 3
"""Most levels between two frames that show the same: less than a sensor's noise and than a moving edge."""
_FROZEN_TICKS, _FROZEN_SHARE = 10, 0.3
"""A frozen run has at least so many ticks, and that share of the episode."""
_MOVED = 0.3
"""Share of its range that some entry of the state covers while a camera is frozen: a robot that waits is no fault."""
_CONSTANT_TICKS = 10
"""Shorter episodes may well hold one action."""


def check_content(index: int, episode: Episode, period: float) -> Iterator[Finding]:
    """Look for what is wrong within an episode.

    Args:
        index: Of the episode.
        episode: Its numbers may be anything, also NaN.
        period: Seconds between ticks, as far as the dataset knows.
    """
    if not episode.instruction.strip():
        yield Finding(check="no-instruction", episode=index, what="its instruction is empty")
    numbers = (episode.proprio, episode.actions, episode.timestamps, episode.reward)
    if all(np.isfinite(values).all() for values in numbers):
        yield from _check_time(index, episode.timestamps, period)
        yield from _check_actions(index, episode.actions)
    for camera, frames in episode.images.items():
        yield from _check_frames(index, camera, frames, episode.proprio)


def _check_time(index: int, times: Float[ndarray, " T"], period: float) -> Iterator[Finding]:
    steps = np.diff(times)
    if not len(steps):
        return
    if (steps <= 0).any():
        tick = int(np.argmax(steps <= 0)) + 1
        what = f"time stands still or goes back by {-steps[tick - 1]:.3g} s at tick {tick}"
        yield Finding(check="time-order", episode=index, what=what)
        return
    gaps = steps > _GAP * period
    if gaps.any() and gaps.mean() < 0.5:  # more would be another rate
        tick = int(steps.argmax()) + 1
        what = (
            f"{gaps.sum()} gaps in time, the longest of {steps.max():.3g} s before tick {tick} (period {period:.3g} s)"
        )
        yield Finding(check="time-gap", episode=index, what=what)


def _check_actions(index: int, actions: Float[ndarray, "T A"]) -> Iterator[Finding]:
    if len(actions) >= _CONSTANT_TICKS and actions.size and not np.ptp(actions, axis=0).any():
        what = f"all its {len(actions)} actions are the same"
        yield Finding(check="constant-actions", episode=index, what=what)


def _check_frames(
    index: int, camera: str, frames: UInt8[ndarray, "T Y X 3"], state: Float[ndarray, "T P"]
) -> Iterator[Finding]:
    black = np.array([frame.max() <= _BLACK for frame in frames])
    if black.any() and black.mean() >= _BLACK_SHARE:
        what = f"{camera} is black in {black.sum()} of {len(black)} frames"
        yield Finding(check="black-camera", episode=index, what=what)
        return
    start, stop = _longest_still(frames)
    if stop - start >= max(_FROZEN_TICKS, _FROZEN_SHARE * len(frames)) and _moves(state, start, stop):
        what = f"{camera} shows the same frame from tick {start} to {stop - 1} while the robot moves"
        yield Finding(check="frozen-camera", episode=index, what=what)


def _longest_still(frames: UInt8[ndarray, "T Y X 3"]) -> tuple[int, int]:
    """First and last tick (exclusive) of the longest run of frames like the first of the run."""
    longest, start = (0, 0), 0
    for tick in range(len(frames)):
        if int(cv2.absdiff(frames[start], frames[tick]).max()) > _SAME:
            start = tick
        longest = max(longest, (start, tick + 1), key=lambda run: run[1] - run[0])
    return longest


def _moves(state: Float[ndarray, "T P"], start: int, stop: int) -> bool:
    if not state.shape[1] or not np.isfinite(state).all():
        return False
    ranges = np.ptp(state, axis=0)
    return bool((np.ptp(state[start:stop], axis=0)[ranges > 0] >= _MOVED * ranges[ranges > 0]).any())
