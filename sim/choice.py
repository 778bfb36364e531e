"""Which candidate the tool has reached: `success_once` alone can be had by touching all of them.

Privileged state, for scoring only.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np


@dataclass(frozen=True)
class Candidates:
    """The objects between which a task asks to choose, in N rows."""

    positions: np.ndarray
    """(N, K, 3) metres, world frame."""
    target: np.ndarray
    """(N,) index of the right one."""
    selectable: np.ndarray
    """(N,) whether the moment of choice has come."""
    cue_shown: np.ndarray
    """(N,) whether the cue is still to be seen."""
    radius: float
    """Distance in metres at which the task counts a candidate as reached."""


def candidates(env: Any) -> Candidates | None:
    """The candidates of a task of choice, or None for a task without."""
    if hasattr(env, "true_color_indices"):
        objects, target = list(env.cubes.values()), env.true_color_indices
        began = env.elapsed_steps >= env.cue_steps_per_env + env.empty_steps_per_env
    elif hasattr(env, "cup_with_ball_number"):
        objects, target = [env.mug_left, env.mug_center, env.mug_right], env.cup_with_ball_number
        began = env.manip_mask
    else:
        return None
    positions = np.stack([_array(actor.pose.p) for actor in objects], axis=1)
    shown = env.elapsed_steps < env.cue_steps_per_env
    return Candidates(positions, _array(target), _array(began), _array(shown), env.GOAL_THRESH)


def count_candidates(env: Any) -> int:
    """Between how many objects a task asks to choose; 0 for a task without a choice."""
    options = candidates(env)
    return 0 if options is None else options.positions.shape[1]


def current_choice(env: Any, num_envs: int) -> np.ndarray:
    """(N,) int8: 1 where the nearest reached candidate is the right one, -1 where it is wrong, 0 where none is."""
    options = candidates(env)
    if options is None:
        return np.zeros(num_envs, np.int8)
    distance = np.linalg.norm(options.positions - _array(env.agent.tcp.pose.p)[:, None], axis=-1)
    reached = (distance.min(1) <= options.radius) & options.selectable
    return np.where(reached, np.where(distance.argmin(1) == options.target, 1, -1), 0).astype(np.int8)


def _array(tensor: Any) -> np.ndarray:
    return tensor.cpu().numpy()
