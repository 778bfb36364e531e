"""N rows of one simulated task in this process: plain arrays in, plain arrays out."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from robomem.errors import NonFiniteError
from robomem.sim.choice import count_candidates, current_choice
from robomem.sim.config import SimConfig
from robomem.sim.lite import use_lite_robots
from robomem.sim.process import prepare
from robomem.sim.standin import hold_hidden_cups, provide
from robomem.sim.tasks import Arrays, build
from robomem.spec import EmbodimentSpec


@dataclass(frozen=True)
class Outcome:
    """What one step produced, for N rows."""

    arrays: Arrays
    """Cameras and `proprio`, as in `Task.read`."""
    reward: np.ndarray
    success: np.ndarray
    done: np.ndarray
    choice: np.ndarray
    """1 right candidate being reached, -1 a wrong one, 0 none (privileged; for scoring)."""


class Simulator:
    """A batch of rows stepped together; a finished row holds still until it is reset."""

    def __init__(self, config: SimConfig, num_envs: int = 1) -> None:
        """Build the task (see `robomem.sim.tasks.build` for the errors)."""
        gym = prepare(config)
        provide(config.env_id)
        if config.render == "lite":
            use_lite_robots(config.env_id)
        self.config = config
        self.task = build(gym, config, num_envs)
        self.num_envs = num_envs
        self._done = np.ones(num_envs, bool)
        self._last: Outcome | None = None

    @property
    def unwrapped(self) -> Any:
        """The ManiSkill environment itself (privileged)."""
        return self.task.env.unwrapped

    def describe(self) -> tuple[EmbodimentSpec, int, int]:
        """The embodiment, the horizon in steps, and the number of candidates (privileged; for scoring)."""
        return self.task.embodiment, self.task.horizon, count_candidates(self.unwrapped)

    def reset(self, seeds: Sequence[int | None]) -> tuple[Arrays, tuple[str, ...]]:
        """Start the rows that have a seed; returns the arrays and the instructions of all rows.

        On a CPU every episode has a new scene, since PhysX solves contacts in an order that depends on earlier ones: a
        seed gives the same episode bit for bit, that of a fresh environment. On a GPU the rows share a scene for good.
        """
        rows = np.flatnonzero([seed is not None for seed in seeds])
        chosen = [seed for seed in seeds if seed is not None]
        if self.config.backend == "cpu":
            obs, info = self.task.env.reset(seed=chosen[0], options={"reconfigure": True})
        else:
            import torch

            options = {"env_idx": torch.as_tensor(rows, device=self.unwrapped.device)}
            obs, info = self.task.env.reset(seed=chosen, options=options)
        self._done[rows] = False
        self._last = None
        return self.task.read(obs), self.task.instructions(info, self.config.instruction)

    def step(self, actions: np.ndarray) -> Outcome:
        """Apply actions (N, A) for one control period.

        Raises:
            NonFiniteError: an action is NaN or infinite; names row and entry.
        """
        check_finite(actions)
        if self._last is not None and self._done.all():
            return self._last
        import torch

        tensor = torch.as_tensor(actions, dtype=torch.float32, device=self.unwrapped.device)
        tensor[torch.as_tensor(self._done, device=tensor.device)] = 0
        hold_hidden_cups(self.unwrapped)
        obs, reward, terminated, truncated, info = self.task.env.step(tensor)
        self._done = self._done | _bools(terminated) | _bools(truncated)
        success = _bools(info["success"]) if "success" in info else np.zeros(self.num_envs, bool)
        rewards = np.asarray(torch.as_tensor(reward).cpu(), np.float32).reshape(self.num_envs)
        choice = current_choice(self.unwrapped, self.num_envs)
        self._last = Outcome(self.task.read(obs), rewards, success, self._done.copy(), choice)
        return self._last

    def close(self) -> None:
        """Free the scene."""
        self.task.env.close()


def check_finite(actions: np.ndarray) -> None:
    """Raise `NonFiniteError` naming the first NaN or infinite entry of actions (N, A)."""
    if not np.isfinite(actions).all():
        row, entry = np.argwhere(~np.isfinite(actions))[0]
        raise NonFiniteError(
            f"action entry {entry} of row {row} is {actions[row, entry]}; the policy diverged: lower the learning rate"
            " or look at its inputs"
        )


def _bools(value: Any) -> np.ndarray:
    import torch

    return np.asarray(torch.as_tensor(value).cpu(), bool).reshape(-1)
