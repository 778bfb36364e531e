"""Interval reproduction: what the cameras show of a cue, and the error of an act."""

import pytest
import torch
from torch import Generator, Tensor

from robomem.probes.base import Batch
from robomem.probes.cells import load_probe
from robomem.probes.interval import CAMERAS, FLASH, LONGEST, SHORTEST

ROWS = 64
PROBES = ("interval", "interval_lamp")


def episodes(name: str, condition: str) -> Batch:
    return load_probe(name).test(Generator().manual_seed(0), ROWS, condition)


def elapsed(batch: Batch) -> Tensor:
    """Seconds since the onset of the cue."""
    return LONGEST * batch.observation[..., 1].amax(1, keepdim=True) - batch.target


@pytest.mark.parametrize("condition", CAMERAS)
@pytest.mark.parametrize("name", PROBES)
def test_time_is_in_seconds_whatever_the_camera(name: str, condition: str) -> None:
    batch = episodes(name, condition)
    camera, since = CAMERAS[condition], elapsed(batch)
    assert (batch.dt > 0).all()
    torch.testing.assert_close(since.diff(dim=1), batch.dt[:, 1:])
    waits = (since + batch.target)[:, 0]
    assert SHORTEST <= waits.min() < waits.max() <= LONGEST
    assert (batch.dt[:, 1:].amax(1) > camera.pause).all()
    assert (batch.dt[:, 1:].mean() - camera.period).abs() < 1e-3 or camera.dropped or camera.pause
    assert (batch.dt.cumsum(1)[:, -1] > waits).all()


@pytest.mark.parametrize("condition", CAMERAS)
@pytest.mark.parametrize("name", PROBES)
def test_the_onset_of_the_cue_is_always_seen_and_nothing_before(name: str, condition: str) -> None:
    batch = episodes(name, condition)
    lit, since = batch.observation[..., 0] > 0, elapsed(batch)
    assert not batch.observation[~lit].any()
    assert (since[lit] > -1e-4).all()
    first = lit.float().argmax(1, keepdim=True)
    torch.testing.assert_close(since.gather(1, first), torch.zeros(ROWS, 1), atol=1e-4, rtol=0)


@pytest.mark.parametrize("condition", CAMERAS)
def test_a_flash_is_over_long_before_the_act(condition: str) -> None:
    batch = episodes("interval", condition)
    lit, since = batch.observation[..., 0] > 0, elapsed(batch)
    assert SHORTEST > 2 * FLASH
    assert (since[lit] < FLASH).all()
    assert not batch.observation[since >= FLASH].any(), "what it said is not shown again"
    assert (lit.sum(1) >= 1).all()
    assert (lit.sum(1) <= 1 + FLASH / CAMERAS[condition].period).all()


def test_frames_of_a_flash_are_dropped() -> None:
    lit = (episodes("interval", "30% of frames dropped").observation[..., 0] > 0).sum(1)
    assert {2, 3, 4} <= set(lit.tolist()) <= {1, 2, 3, 4}


@pytest.mark.parametrize("condition", CAMERAS)
def test_a_lamp_stays_on_and_is_the_same_episode_otherwise(condition: str) -> None:
    flash, lamp = (episodes(name, condition) for name in PROBES)
    since = elapsed(lamp)
    assert torch.equal(lamp.observation[..., 0] > 0, since > -1e-4)
    for mine, other in ((flash.dt, lamp.dt), (flash.target, lamp.target), (flash.weight, lamp.weight)):
        assert torch.equal(mine, other)


def test_the_score_is_the_error_of_the_act() -> None:
    probe, batch = load_probe("interval"), episodes("interval", "as trained")
    late = batch.target[..., None] + 0.25
    torch.testing.assert_close(probe.score(late, batch), torch.full((ROWS,), 0.25), atol=1e-4, rtol=0)
    assert (probe.score(torch.full_like(late, 100.0), batch) > 1).all()
