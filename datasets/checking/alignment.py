"""Whether actions and observations belong to the same ticks: the lag at which the state best follows the actions.

Joint i of the state is held against entry i of the action, once as the goal of a joint (steps of both are compared)
and once as its speed (the action and the step of the state). Whatever is not clear in most episodes is left out.
"""

from collections.abc import Iterator, Mapping

import numpy as np
from jaxtyping import Float
from numpy import ndarray

from robomem.datasets.checking.finding import Finding

_LAGS = np.arange(-8, 9)
"""Ticks from an action to the step of the state: 0 where it acts at once."""
_MOST_PAIRS = 32
_TICKS = 30
"""Fewer do not determine a lag."""
_CLEAR = 0.6
"""Least correlation at the best lag, as a mean over the pairs."""
_MARGIN = 0.15
"""By which it must exceed that at the expected lags."""
_SLOW = 0.3
"""Seconds by which a robot may follow its goals; servos of small arms take 0.1 to 0.2."""

Correlations = Float[ndarray, "2 L N"]
"""By meaning of the action (goal, speed), lag, and pair of an action and an entry of the state."""


def correlate(state: Float[ndarray, "T P"], actions: Float[ndarray, "T A"]) -> Correlations | None:
    """Correlations of an episode at every lag; None if it is too short."""
    pairs = min(state.shape[1], actions.shape[1], _MOST_PAIRS)
    if len(actions) < _TICKS or not pairs:
        return None
    steps = np.diff(state[:, :pairs].astype(np.float64), axis=0)
    causes = (np.diff(actions[:, :pairs].astype(np.float64), axis=0), actions[:-1, :pairs].astype(np.float64))
    return np.array([[_correlation(cause, steps, int(lag)) for lag in _LAGS] for cause in causes], np.float32)


def _correlation(cause: Float[ndarray, "T N"], effect: Float[ndarray, "T N"], lag: int) -> Float[ndarray, " N"]:
    """Pearson's, of each cause with the effect `lag` ticks later; 0 where either is constant."""
    early, late = (cause[: len(cause) - lag], effect[lag:]) if lag >= 0 else (cause[-lag:], effect[:lag])
    early, late = early - early.mean(axis=0), late - late.mean(axis=0)
    scale = np.sqrt((early**2).sum(axis=0) * (late**2).sum(axis=0))
    return np.divide((early * late).sum(axis=0), scale, out=np.zeros(early.shape[1]), where=scale > 1e-9)


def check_alignment(correlations: Mapping[int, Correlations], period: float) -> Iterator[Finding]:
    """Name episodes whose lag is another than that of the rest, and a lag of all that no robot has."""
    if not correlations:
        return
    common = np.median(list(correlations.values()), axis=0)
    peaks = np.abs(common).max(axis=1)
    clear = peaks >= _CLEAR
    if not clear.any():
        return
    meaning = int(np.where(clear, peaks, 0).sum(axis=1).argmax())
    pairs = np.flatnonzero(clear[meaning])
    signs = np.sign(np.take_along_axis(common[meaning], np.abs(common[meaning]).argmax(axis=0)[None], axis=0))[0]

    def curve(values: Correlations) -> Float[ndarray, " L"]:
        return (values[meaning] * signs)[:, pairs].mean(axis=1)

    usual = int(_LAGS[curve(common).argmax()])
    if _is_odd(curve(common), (0, 1)) and not 0 <= usual * period <= _SLOW:
        what = f"in most episodes the state {_follows(usual)} the actions"
        yield Finding(check="shifted-actions", what=what)
    for index, values in sorted(correlations.items()):
        found = curve(values)
        lag = int(_LAGS[found.argmax()])
        if abs(lag - usual) > 1 and _is_odd(found, (0, 1, usual)):
            what = f"the state {_follows(lag)} the actions, {usual} ticks in the other episodes"
            yield Finding(check="shifted-actions", episode=index, what=what)


def _is_odd(curve: Float[ndarray, " L"], expected: tuple[int, ...]) -> bool:
    """Whether the best lag is clear and none of the expected."""
    return bool(curve.max() >= _CLEAR and curve.max() - curve[np.isin(_LAGS, expected)].max() >= _MARGIN)


def _follows(lag: int) -> str:
    return f"follows {lag} ticks after" if lag >= 0 else f"is {-lag} ticks ahead of"
