"""The vectorised environment of the contract, over simulators in worker processes or one batch on a GPU."""

import os
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import torch

from robomem.contract import Observation
from robomem.environment import Environment, Step
from robomem.errors import RobomemError
from robomem.sim.config import SimConfig
from robomem.sim.simulator import Outcome, Simulator, check_finite
from robomem.sim.tasks import Arrays
from robomem.sim.workers import WorkerProcesses
from robomem.spec import EmbodimentSpec


def make_environment(config: SimConfig, autoreset: bool = False) -> Environment:
    """The environment of a configuration, batched over `config.workers` rows (0: one per core).

    Args:
        config: Task, backend and rendering.
        autoreset: A finished row starts its next seed (its last one plus the number of rows) by itself.

    Raises:
        RobomemError: unknown id, missing driver or missing assets.
    """
    if not config.renders:
        raise RobomemError("a policy needs images: sim.render=exact or sim.render=lite")
    rows = config.workers or (os.cpu_count() or 1)
    config = replace(config, workers=rows)
    backend = _Processes(config) if config.backend == "cpu" else _Batch(config)
    return ManiSkillEnvironment(backend, autoreset)


class _Processes:
    """One row per worker process (CPU physics, software rendering)."""

    def __init__(self, config: SimConfig) -> None:
        self.rows = config.workers
        self._workers = WorkerProcesses(partial(Simulator, config), self.rows)
        every = range(self.rows)
        described = self._workers.call(every, "describe", [()] * self.rows)[0]
        self.embodiment, self.horizon, self.candidates = described

    def reset(self, seeds: Sequence[int | None]) -> dict[int, tuple[Arrays, str]]:
        rows = [row for row, seed in enumerate(seeds) if seed is not None]
        replies = self._workers.call(rows, "reset", [([seeds[row]],) for row in rows])
        return {
            row: ({k: v[0] for k, v in arrays.items()}, texts[0])
            for row, (arrays, texts) in zip(rows, replies, strict=True)
        }

    def step(self, actions: np.ndarray) -> Outcome:
        replies = self._workers.call(range(self.rows), "step", [(actions[[row]],) for row in range(self.rows)])
        fields = ("reward", "success", "done", "choice")
        arrays = {k: np.concatenate([r.arrays[k] for r in replies]) for k in replies[0].arrays}
        return Outcome(arrays, *(np.concatenate([getattr(r, name) for r in replies]) for name in fields))

    def close(self) -> None:
        self._workers.close()


class _Batch:
    """All rows in one simulation in this process (GPU)."""

    def __init__(self, config: SimConfig) -> None:
        self.rows = config.workers
        self._simulator = Simulator(config, self.rows)
        self.embodiment, self.horizon, self.candidates = self._simulator.describe()
        self.step = self._simulator.step
        self.close = self._simulator.close

    def reset(self, seeds: Sequence[int | None]) -> dict[int, tuple[Arrays, str]]:
        arrays, texts = self._simulator.reset(seeds)
        rows = [row for row, seed in enumerate(seeds) if seed is not None]
        return {row: ({k: v[row] for k, v in arrays.items()}, texts[row]) for row in rows}


class ManiSkillEnvironment:
    """`robomem.environment.Environment` over a backend; keeps the newest observation of every row."""

    embodiment: EmbodimentSpec
    num_envs: int
    horizon: int
    candidates: int

    def __init__(self, backend: Any, autoreset: bool) -> None:
        """Wrap a backend; see `make_environment`."""
        self.embodiment, self.num_envs, self.horizon = backend.embodiment, backend.rows, backend.horizon
        self.candidates = backend.candidates
        self._backend = backend
        self._autoreset = autoreset
        self._seeds: list[int | None] = [None] * self.num_envs
        self._rows: list[Arrays] = [{}] * self.num_envs
        self._texts = [""] * self.num_envs

    def reset(self, seeds: Sequence[int | None]) -> Observation:
        """Start the rows that have a seed; the others keep their state and their last observation."""
        if len(seeds) != self.num_envs:
            raise ValueError(f"{len(seeds)} seeds for {self.num_envs} rows")
        for row, (arrays, text) in self._backend.reset(seeds).items():
            self._rows[row], self._texts[row], self._seeds[row] = arrays, text, seeds[row]
        if not all(self._rows):
            raise ValueError("the first reset must give every row a seed")
        return self._observation()

    def step(self, actions: np.ndarray) -> Step:
        """Act for one control period; finished rows hold still (or restart, with `autoreset`)."""
        check_finite(actions)
        outcome = self._backend.step(np.asarray(actions, np.float32))
        self._rows = [{k: v[row] for k, v in outcome.arrays.items()} for row in range(self.num_envs)]
        elapsed = np.full(self.num_envs, self.embodiment.action_dt)
        if self._autoreset and outcome.done.any():
            ended = zip(self._seeds, outcome.done, strict=True)
            self.reset([(seed or 0) + self.num_envs if done else None for seed, done in ended])
            elapsed[outcome.done] = 0
        return Step(self._observation(), outcome.reward, outcome.success, outcome.done, outcome.choice, elapsed)

    def close(self) -> None:
        """Stop the simulators."""
        self._backend.close()

    def _observation(self) -> Observation:
        stacked = {k: torch.from_numpy(np.stack([row[k] for row in self._rows])) for k in self._rows[0]}
        proprio = stacked.pop("proprio")
        return Observation(stacked, proprio, tuple(self._texts))
