"""Interval reproduction: act a stated number of seconds after a cue, whatever the frame rate.

The cue is a flash, whose end and most of whose frames a camera may miss, or a lamp that stays on. Of a lamp all
observations after the first one show the same, and a memory whose clock is the measured time does not mind how many of
them there are, or when; of a flash it has to keep what only some of them showed.
"""

import math
from dataclasses import dataclass
from statistics import fmean

import torch
from jaxtyping import Float
from torch import Generator, Tensor
from torch.nn import functional

from robomem.probes.base import PERIOD, Batch, Outcome, Probe, Report
from robomem.probes.model import Model

FLASH = 0.4
"""Seconds."""
SHORTEST, LONGEST = 1.0, 3.0
"""Seconds to wait from the onset of the cue."""
LEAD = 8
"""Nominal periods before the cue, at most."""
MARGIN = 0.2
"""Seconds between the end of a pause and the act, at least."""
BETA = 0.1
"""Seconds of error up to which the loss is quadratic."""
INSTANT = 1e-4
"""Seconds that rounding may move an observation by."""


@dataclass(frozen=True)
class Camera:
    """When observations are made."""

    period: float = PERIOD
    """Seconds between two."""
    jitter: float = 0.0
    """Each comes up to this share of a period early or late."""
    dropped: float = 0.0
    """Share of observations that are lost; that of the onset of the cue never is."""
    pause: float = 0.0
    """Seconds without any, once between the onset of the cue and the act."""


CAMERAS = {
    "as trained": Camera(jitter=0.1),
    "half the frame rate": Camera(period=2 * PERIOD),
    "twice the frame rate": Camera(period=PERIOD / 2),
    "jitter": Camera(jitter=0.4),
    "30% of frames dropped": Camera(dropped=0.3),
    "a pause": Camera(pause=0.6),
}


class Interval(Probe):
    """The cue says how long to wait; every answer is the time that is left.

    A policy plans ahead, so an answer acts if the time it names comes before the next observation does.
    """

    title = f"Interval reproduction: a flash of {FLASH} s says how long after its onset to act, 1 to 3 s; timing error"
    shown = FLASH
    """Seconds that the cue lasts."""
    features = 2
    outputs = 1
    conditions = tuple(CAMERAS)
    headline = "half the frame rate"
    unit = "s"

    def training(self, generator: Generator, rows: int) -> Batch:
        """Episodes at the nominal frame rate, as exact as cameras are, that end soon after the act."""
        return self._episodes(generator, rows, CAMERAS["as trained"], LEAD * PERIOD + LONGEST + 0.5)

    def test(self, generator: Generator, rows: int, condition: str) -> Batch:
        """Episodes that leave time to be as late again as the longest wait."""
        return self._episodes(generator, rows, CAMERAS[condition], LEAD * PERIOD + 2 * LONGEST)

    def loss(self, outputs: Tensor, batch: Batch) -> Tensor:
        """Huber's, of the time left."""
        return functional.smooth_l1_loss(outputs[..., 0], batch.target, beta=BETA, reduction="none")

    def score(self, outputs: Tensor, batch: Batch) -> Tensor:
        """Seconds between the act and the right time; the end of the episode acts by itself."""
        time = batch.dt.cumsum(1)
        waited = batch.weight.cumsum(1) > 0
        planned = time + outputs[..., 0].clamp_min(0)
        following = functional.pad(time[:, 1:], (0, 1), value=torch.inf)
        acts = waited & (planned <= following)
        acts[:, -1] = True
        first = acts.float().argmax(1, keepdim=True)
        act = planned.gather(1, first)[:, 0].minimum(time[:, -1])
        due = (time + batch.target)[:, -1]
        return (act - due).abs()

    def evaluate(self, model: Model, generator: Generator, report: Report) -> Outcome:
        """Test under all conditions; what an error there is in errors under the first is measured too."""
        scores = super().evaluate(model, generator, report).scores
        first, *others = ((condition, fmean(errors)) for condition, errors in scores.items())
        return Outcome(scores, {f"{condition}, times the error {first[0]}": e / first[1] for condition, e in others})

    def _episodes(self, generator: Generator, rows: int, camera: Camera, seconds: float) -> Batch:
        onset = 2 * PERIOD * torch.randint(1, LEAD // 2 + 1, (rows, 1), generator=generator)
        wait = SHORTEST + (LONGEST - SHORTEST) * torch.rand(rows, 1, generator=generator)
        time = _times(generator, camera, onset, wait, seconds)
        since = time - onset
        after = since > -INSTANT
        lit = after & (since < self.shown - INSTANT)
        observation = torch.stack([lit.float(), lit * wait / LONGEST], dim=-1)
        dt = functional.pad(time.diff(dim=1), (1, 0), value=camera.period)
        return Batch(observation, dt, wait - since, after.float())


class IntervalLamp(Interval):
    """The easier one: the lamp stays on."""

    title = "Interval reproduction: a lamp that stays on says how long after its onset to act, 1 to 3 s; timing error"
    shown = math.inf


def _times(generator: Generator, camera: Camera, onset: Tensor, wait: Tensor, seconds: float) -> Float[Tensor, "B T"]:
    """Seconds at which each episode is observed; the onset of the cue always is one of them."""
    rows = len(onset)
    grid = camera.period * torch.arange(round(seconds / camera.period)).expand(rows, -1)
    fixed = (grid - onset).abs() < camera.period / 2
    fixed[:, 0] = True
    early = camera.jitter * camera.period * (2 * torch.rand(grid.shape, generator=generator) - 1)
    grid = grid + torch.where(fixed, 0.0, early)
    lost = torch.rand(grid.shape, generator=generator).masked_fill(fixed, 2.0)
    grid = _without(grid, lost, round(camera.dropped * grid.shape[1]))
    if camera.pause:
        room = wait - MARGIN - camera.pause
        start = onset + room * torch.rand(rows, 1, generator=generator)
        order = torch.where(grid > start, grid, torch.inf)
        grid = _without(grid, order, round(camera.pause / camera.period))
    return grid


def _without(time: Float[Tensor, "B T"], order: Float[Tensor, "B T"], count: int) -> Float[Tensor, "B T-count"]:
    """Each row without the `count` observations that are lowest in `order`."""
    kept = order.argsort(1)[:, count:].sort(1).values
    return time.gather(1, kept)
