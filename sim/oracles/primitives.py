"""Motions that oracles are composed of, as actions of the `pd_ee_delta_pose` controller."""

from typing import Any

import numpy as np

REACH = 0.1
"""Metres that one unit of action commands; the proportional gain of `move_to`."""
CLOSED = -1.0
"""Gripper command."""


def tool_position(env: Any) -> np.ndarray:
    """(3,) tool centre point of row 0 in the world frame, metres."""
    return env.agent.tcp.pose.p[0].cpu().numpy()


def move_to(env: Any, goal: np.ndarray) -> np.ndarray:
    """Proportional step (7,) of the tool towards a point (3,) in the world frame, gripper closed."""
    step = np.clip((goal - tool_position(env)) / REACH, -1, 1)
    return np.concatenate([step, np.zeros(3), [CLOSED]]).astype(np.float32)


def hold() -> np.ndarray:
    """The action (7,) that keeps the arm where it is."""
    return np.zeros(7, np.float32)
