"""The arm as scripts see and move it, through the `pd_ee_delta_pose` controller."""

from typing import Any

import numpy as np

REACH = 0.1
"""Metres that one unit of action commands; a proportional step towards a goal closes about 0.4 of the way."""
TURN = -0.1
"""Radians that one unit of action commands: ManiSkill 3.0.1 turns against the sign."""
CLOSED, HALF, OPEN = -1.0, 0.0, 1.0
"""Gripper commands."""
STILL = 0.2
"""Radians per second below which the tasks call the arm static."""
STUCK = 0.001
"""Metres; a tool that was sent further and moved less is stuck, as where inverse kinematics has no solution."""


class Arm:
    """The arm of row 0 of a ManiSkill environment (privileged)."""

    def __init__(self, env: Any) -> None:
        """Wrap an unwrapped environment."""
        self.env = env
        self._sent = 0.0
        self._before = np.zeros(3)
        self._scale = 1.0

    @property
    def position(self) -> np.ndarray:
        """(3,) tool centre point in the world frame, metres."""
        return self.env.agent.tcp.pose.p[0].cpu().numpy()

    @property
    def static(self) -> bool:
        """Whether the joints are as good as still."""
        return bool(self.env.agent.is_static(STILL)[0])

    def distance(self, goal: np.ndarray) -> float:
        """Metres from the tool to a point (3,)."""
        return float(np.linalg.norm(goal - self.position))

    def towards(self, goal: np.ndarray, gripper: float = CLOSED, turn: np.ndarray | None = None) -> np.ndarray:
        """Proportional step (7,) of the tool towards a point.

        A step that inverse kinematics cannot take is not taken at all, silently; shorter ones are tried then.

        Args:
            goal: (3,) in the world frame, metres.
            gripper: Command from -1 (closed) to 1 (open).
            turn: (3,) rotation about the axes of the world, radians.
        """
        self._back_off()
        step = np.clip((goal - self.position) / REACH, -1, 1) * self._scale
        self._sent, self._before = REACH * float(np.linalg.norm(step)), self.position
        spin = np.zeros(3) if turn is None else np.clip(turn / TURN, -1, 1)
        return np.concatenate([step, spin, [gripper]]).astype(np.float32)

    def hold(self, gripper: float = HALF) -> np.ndarray:
        """The action (7,) that keeps the arm where it is."""
        self._sent = 0.0
        return np.array([0, 0, 0, 0, 0, 0, gripper], np.float32)

    def _back_off(self) -> None:
        stuck = self._sent > 5 * STUCK and self.distance(self._before) < STUCK
        self._scale = max(self._scale / 2, 1 / 16) if stuck else min(self._scale * 2, 1.0)
