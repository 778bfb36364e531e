"""Scripted demonstrators that read privileged simulator state; what they see never reaches a dataset or a policy."""

import re
from typing import Any, Protocol

import numpy as np

from robomem.sim.oracles.touch import SweepTouch, Touch
from robomem.sim.tasks import unknown


class Oracle(Protocol):
    """Chooses actions for one row of a ManiSkill environment."""

    def act(self, env: Any) -> np.ndarray:
        """Action (A,) for the current state of the unwrapped environment."""
        ...


_ORACLES = {
    r"RememberColor(3|5|9)-VLA-v0": lambda: Touch(above=0.03),
    r"ShellGameTouch-VLA-v0": lambda: Touch(above=0.065),
}
_SWEEPS = {
    r"RememberColor(3|5|9)(-Long)?-VLA-v0": lambda: SweepTouch(above=0.03),
    r"ShellGameTouch-VLA-v0": lambda: SweepTouch(above=0.065),
}


def make_oracle(env_id: str) -> Oracle:
    """A fresh demonstrator for one episode; raises `RobomemError` for a task without."""
    return _make("oracle for", _ORACLES, env_id)


def make_sweep(env_id: str) -> Oracle:
    """A fresh memoryless baseline that touches every candidate in a fixed order, whatever the cue was."""
    return _make("sweep for", _SWEEPS, env_id)


def _make(kind: str, table: dict[str, Any], env_id: str) -> Oracle:
    for pattern, factory in table.items():
        if re.fullmatch(pattern, env_id):
            return factory()
    raise unknown(kind, env_id, [re.sub(r"\\|\(\|\)\?", "", pattern) for pattern in table])
