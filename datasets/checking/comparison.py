"""What episodes tell of each other: copies, cameras and colours that are another's, limits that only some run into."""

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

import cv2
import numpy as np
from jaxtyping import Float, UInt8
from numpy import ndarray

from robomem.datasets.checking.alignment import Correlations, check_alignment, correlate
from robomem.datasets.checking.finding import Finding
from robomem.episode import Episode

_GRID, _SAMPLES = 4, 16
"""A look is the mean of some frames of an episode, as a small grid of colours."""
_FEWEST = 4
"""Episodes without which none stands out from the rest."""
_SPREAD = 4.0
"""Two looks are told apart if they differ by this many times what a look differs from episode to episode."""
_NEARER = 0.5
"""Share of its distance to its own camera (or colours) that an episode may have to the other one's."""
_ALIKE = 3.0
"""Most levels between the looks of copies: what a video codec may change."""
_HELD, _INSIDE = 0.3, 0.2
"""Share of ticks at a limit that lies inside those of the other episodes, by that share of their range."""
_SATURATED = 0.75
"""Share of ticks at limits, as a mean over the actions, that is too much wherever they are: a scripted demonstrator at
full speed reaches 0.53."""
_VALUES = 5
"""An action with fewer values is a switch, which belongs at its limits."""
_CLIP_TICKS = 20
_RATE = 0.1
"""Share by which the common step of time may differ from the period."""
_DRIFT, _DRIFTED = 0.05, 2.0
"""Share by which the step of an episode may differ from the common one, if that makes more than so many ticks."""


@dataclass(frozen=True)
class Portrait:
    """What is kept of an episode to compare it with others: a few kilobytes."""

    index: int
    digest: str
    """Of its state and actions."""
    looks: Mapping[str, Float[ndarray, "G G 3"]]
    limits: Float[ndarray, "4 A"]
    """Least and greatest value of each action, and the share of ticks at each; NaN for switches."""
    ticks: int
    step: float
    """Median step of time in seconds; 0 without one."""
    correlations: Correlations | None


def portray(index: int, episode: Episode) -> Portrait:
    """What to keep of an episode."""
    digest = hashlib.sha256(episode.proprio.tobytes() + episode.actions.tobytes())
    finite = all(np.isfinite(values).all() for values in (episode.proprio, episode.actions, episode.timestamps))
    return Portrait(
        index=index,
        digest=digest.hexdigest(),
        looks={camera: _look(frames) for camera, frames in episode.images.items() if len(frames)},
        limits=_limits(episode.actions) if finite else np.full((4, episode.actions.shape[1]), np.nan),
        ticks=len(episode),
        step=float(np.median(np.diff(episode.timestamps))) if finite and len(episode) > 1 else 0.0,
        correlations=correlate(episode.proprio, episode.actions) if finite else None,
    )


def compare_portraits(portraits: Sequence[Portrait], period: float) -> Iterator[Finding]:
    """Look for episodes that do not fit the others, and for what is odd in all of them.

    Args:
        portraits: Of all episodes that can be read.
        period: Seconds between ticks, as far as the dataset knows.
    """
    yield from _check_copies(portraits)
    yield from _check_cameras(portraits)
    yield from _check_colours(portraits)
    yield from _check_limits(portraits)
    yield from _check_rate(portraits, period)
    known = {portrait.index: portrait.correlations for portrait in portraits if portrait.correlations is not None}
    yield from check_alignment(known, period)


def _look(frames: UInt8[ndarray, "T Y X 3"]) -> Float[ndarray, "G G 3"]:
    chosen = frames[np.unique(np.linspace(0, len(frames) - 1, _SAMPLES).astype(int))]
    small = [cv2.resize(frame, (_GRID, _GRID), interpolation=cv2.INTER_AREA) for frame in chosen]
    return np.asarray(np.mean(small, axis=0, dtype=np.float64))


def _limits(actions: Float[ndarray, "T A"]) -> Float[ndarray, "4 A"]:
    low, high = actions.min(axis=0), actions.max(axis=0)
    limits = np.array([low, high, (actions == low).mean(axis=0), (actions == high).mean(axis=0)], np.float64)
    switches = [len(actions) < _CLIP_TICKS or len(np.unique(column)) < _VALUES for column in actions.T]
    limits[:, switches] = np.nan
    return limits


def _check_copies(portraits: Sequence[Portrait]) -> Iterator[Finding]:
    first: dict[str, Portrait] = {}
    for portrait in portraits:
        other = first.setdefault(portrait.digest, portrait)
        if other is not portrait and _look_alike(other, portrait):
            what = f"its state, actions and frames are those of episode {other.index}"
            yield Finding(check="duplicate", episode=portrait.index, what=what)


def _look_alike(a: Portrait, b: Portrait) -> bool:
    return all(np.abs(a.looks[camera] - b.looks[camera]).max() <= _ALIKE for camera in a.looks.keys() & b.looks.keys())


def _common(portraits: Sequence[Portrait], camera: str) -> tuple[Float[ndarray, "G G 3"], float] | None:
    """The median look of a camera, and the median distance of an episode's look from it."""
    looks = [portrait.looks[camera] for portrait in portraits if camera in portrait.looks]
    if len(looks) < _FEWEST:
        return None
    middle = np.median(looks, axis=0)
    return middle, float(np.median([_distance(look, middle) for look in looks]))


def _distance(a: ndarray, b: ndarray) -> float:
    return float(np.abs(a - b).mean())


def _check_cameras(portraits: Sequence[Portrait]) -> Iterator[Finding]:
    cameras = sorted({camera for portrait in portraits for camera in portrait.looks})
    for one, other in combinations(cameras, 2):
        mine, theirs = _common(portraits, one), _common(portraits, other)
        if not mine or not theirs or _distance(mine[0], theirs[0]) <= _SPREAD * max(mine[1], theirs[1]):
            continue
        for portrait in portraits:
            a, b = portrait.looks.get(one), portrait.looks.get(other)
            if a is None or b is None:
                continue
            straight = _distance(a, mine[0]) + _distance(b, theirs[0])
            crossed = _distance(a, theirs[0]) + _distance(b, mine[0])
            if crossed < _NEARER * straight:
                what = f"{one} looks like {other} in the other episodes, and {other} like {one}"
                yield Finding(check="swapped-cameras", episode=portrait.index, what=what)


def _check_colours(portraits: Sequence[Portrait]) -> Iterator[Finding]:
    for camera in sorted({camera for portrait in portraits for camera in portrait.looks}):
        common = _common(portraits, camera)
        if common is None or _distance(common[0], common[0][..., ::-1]) <= _SPREAD * common[1]:
            continue
        for portrait in portraits:
            look = portrait.looks.get(camera)
            if look is not None and _distance(look[..., ::-1], common[0]) < _NEARER * _distance(look, common[0]):
                what = f"red and blue of {camera} are exchanged against the other episodes"
                yield Finding(check="colour-order", episode=portrait.index, what=what)


def _check_limits(portraits: Sequence[Portrait]) -> Iterator[Finding]:
    """An episode whose actions are cut off at limits that others exceed; at zero, which is rest, they may stay."""
    if not portraits:
        return
    limits = np.ma.masked_invalid([portrait.limits[:2] for portrait in portraits])
    least, greatest = np.ma.median(limits, axis=0).filled(np.nan)
    room = np.where(limits.count(axis=0)[0] >= _FEWEST, _INSIDE * (greatest - least), np.inf)
    for portrait in portraits:
        low, high, at_low, at_high = portrait.limits
        known = np.isfinite(low)
        inside = ((at_low > _HELD) & (low != 0) & (low > least + room)) | (
            (at_high > _HELD) & (high != 0) & (high < greatest - room)
        )
        if known.any() and (at_low + at_high)[known].mean() > _SATURATED:
            what = f"actions are at their limits in {(at_low + at_high)[known].mean():.0%} of the ticks"
            yield Finding(check="clipped-actions", episode=portrait.index, what=what)
        elif inside.any():
            what = f"action {', '.join(map(str, np.flatnonzero(inside)))} stays at a limit that other episodes exceed"
            yield Finding(check="clipped-actions", episode=portrait.index, what=what)


def _check_rate(portraits: Sequence[Portrait], period: float) -> Iterator[Finding]:
    timed = [portrait for portrait in portraits if portrait.step > 0]
    if not timed:
        return
    common = float(np.median([portrait.step for portrait in timed]))
    if abs(common / period - 1) > _RATE:
        what = f"ticks are {common:.3g} s apart in the median of all episodes, not {period:.3g} s"
        yield Finding(check="wrong-rate", what=what)
    else:
        common = period
    for portrait in timed:
        drift = abs(portrait.step / common - 1)
        if drift > _DRIFT and drift * portrait.ticks > _DRIFTED:
            what = f"its ticks are {portrait.step:.3g} s apart, not {common:.3g} s"
            yield Finding(check="time-drift", episode=portrait.index, what=what)
