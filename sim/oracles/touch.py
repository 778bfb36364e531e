"""Touch one of several candidates."""

import numpy as np

from robomem.sim.choice import Candidates, candidates
from robomem.sim.oracles.arm import Arm
from robomem.sim.oracles.primitives import Script, wait

CLEARANCE = 0.05
"""Metres above the contact point on the way, so that no other candidate is brushed."""
NEAR = 0.06
"""Horizontal distance in metres at which the tool starts to go down."""


def touch(arm: Arm, above: float) -> Script:
    """Hold still until the moment of choice, then touch the right candidate, `above` metres over its centre."""
    yield from wait(arm, lambda: bool(_options(arm).selectable[0]))
    while True:
        options = _options(arm)
        yield _approach(arm, options.positions[0, options.target[0]], above)


def sweep(arm: Arm, above: float) -> Script:
    """Touch every candidate in order of its index, ignoring the cue: what `success_once` grants without memory."""
    yield from wait(arm, lambda: bool(_options(arm).selectable[0]))
    current = 0
    while True:
        options = _options(arm)
        if arm.distance(options.positions[0, current]) <= options.radius and arm.static:
            current = min(current + 1, options.positions.shape[1] - 1)
        yield _approach(arm, options.positions[0, current], above)


def _approach(arm: Arm, target: np.ndarray, above: float) -> np.ndarray:
    goal = target + np.array([0, 0, above])
    if np.linalg.norm(goal[:2] - arm.position[:2]) > NEAR:
        goal[2] += CLEARANCE
    return arm.towards(goal)


def _options(arm: Arm) -> Candidates:
    options = candidates(arm.env)
    assert options is not None, "touch needs a task of choice"
    return options
