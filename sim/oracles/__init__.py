"""Scripted demonstrators that read privileged simulator state; what they see never reaches a dataset or a policy."""

import re
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import numpy as np

from robomem.sim.oracles.arm import Arm
from robomem.sim.oracles.buttons import blink_count
from robomem.sim.oracles.primitives import Script
from robomem.sim.oracles.touch import sweep, touch
from robomem.sim.tasks import unknown

_SCRIPTS: Mapping[str, Callable[[Arm], Script]] = {
    r"RememberColor(3|5|9)-VLA-v0": partial(touch, above=0.03),
    r"ShellGameTouch-VLA-v0": partial(touch, above=0.065),
    r"BlinkCountButtonPress(Easy|Medium|Hard)(-Long)?-VLA-v0": blink_count,
}
_SWEEPS: Mapping[str, Callable[[Arm], Script]] = {
    r"RememberColor(3|5|9)(-Long)?-VLA-v0": partial(sweep, above=0.03),
    r"ShellGameTouch-VLA-v0": partial(sweep, above=0.065),
}


class Oracle:
    """Carries out a script in row 0 of an environment, for one episode; holds still when the script has ended."""

    def __init__(self, script: Callable[[Arm], Script]) -> None:
        """The script starts at the first action."""
        self._script = script
        self._arm: Arm | None = None
        self._actions: Script

    def act(self, env: Any) -> np.ndarray:
        """Action (7,) for the current state of the unwrapped environment."""
        if self._arm is None:
            self._arm = Arm(env)
            self._actions = self._script(self._arm)
        return next(self._actions, self._arm.hold())


def make_oracle(env_id: str) -> Oracle:
    """A fresh demonstrator for one episode; raises `RobomemError` for a task without."""
    return _make("oracle for", _SCRIPTS, env_id)


def make_sweep(env_id: str) -> Oracle:
    """A fresh memoryless baseline that touches every candidate in a fixed order, whatever the cue was."""
    return _make("sweep for", _SWEEPS, env_id)


def _make(kind: str, table: Mapping[str, Callable[[Arm], Script]], env_id: str) -> Oracle:
    for pattern, script in table.items():
        if re.fullmatch(pattern, env_id):
            return Oracle(script)
    raise unknown(kind, env_id, [re.sub(r"\\|\(\|\)\?", "", pattern) for pattern in table])
