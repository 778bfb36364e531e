"""Touch one of several candidates."""

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from robomem.sim.choice import Candidates, candidates
from robomem.sim.oracles.primitives import hold, move_to, tool_position

HOVER = 0.05
"""Metres above the contact point on the way, so that no other candidate is brushed."""
NEAR = 0.06
"""Horizontal distance in metres at which the tool starts to go down."""


@dataclass(frozen=True)
class Touch:
    """Hold still until the moment of choice, then touch the right candidate."""

    above: float
    """Height in metres of the contact point above the candidate's centre."""

    def act(self, env: Any) -> np.ndarray:
        """Action (7,) towards the target, or holding still."""
        options = _options(env)
        if not options.selectable[0]:
            return hold()
        return _approach(env, options.positions[0, options.target[0]], self.above)


@dataclass
class SweepTouch:
    """Touch every candidate in order of its index, ignoring the cue: what `success_once` grants without memory."""

    above: float
    _current: int = field(default=0, init=False)

    def act(self, env: Any) -> np.ndarray:
        """Action (7,) towards the next candidate not yet touched."""
        options = _options(env)
        if not options.selectable[0]:
            return hold()
        distance = np.linalg.norm(options.positions[0, self._current] - tool_position(env))
        if distance <= options.radius and bool(env.agent.is_static(0.2)[0]):
            self._current = min(self._current + 1, options.positions.shape[1] - 1)
        return _approach(env, options.positions[0, self._current], self.above)


def _approach(env: Any, target: np.ndarray, above: float) -> np.ndarray:
    goal = target + np.array([0, 0, above])
    if np.linalg.norm(goal[:2] - tool_position(env)[:2]) > NEAR:
        goal[2] += HOVER
    return move_to(env, goal)


def _options(env: Any) -> Candidates:
    options = candidates(env)
    assert options is not None, "touch needs a task of choice"
    return options
