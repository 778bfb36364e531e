"""What an evaluation can play: a policy from a checkpoint, or a scripted baseline."""

import os
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from robomem.rollout import EpisodeResult, rollout

if TYPE_CHECKING:
    from robomem.config import EvalConfig
    from robomem.contract import Policy
    from robomem.environment import Environment
    from robomem.sim.config import SimConfig

_TO_THE_END = 10**9
"""Steps to hold after success: a scripted controller runs until the episode ends, as a policy does."""


class Scripted:
    """A baseline that reads privileged state: what the task grants to perfect knowledge, or to none of the cue."""

    def __init__(self, config: "EvalConfig") -> None:
        """Find the controller of the task; raises `RobomemError` if it has none."""
        from robomem.sim.oracles import make_oracle, make_sweep

        assert config.baseline is not None
        self._sim = replace(config.sim, render="none")
        self._make = {"oracle": make_oracle, "sweep": make_sweep}[config.baseline]
        self._make(config.sim.env_id)
        self.folder = Path(
            config.output_dir or Path(config.paths.outputs) / "eval" / config.baseline / config.sim.env_id
        )
        self.configuration = {
            "env_id": config.sim.env_id,
            "policy": config.baseline,
            "render": "none",
            "backend": config.sim.backend,
            "start_seed": config.start_seed,
        }

    def play(self, seeds: Sequence[int]) -> Iterator[EpisodeResult]:
        """The episodes of some seeds."""
        from robomem.sim.config import Demonstration
        from robomem.sim.demonstrate import Demonstrator

        demonstrator = Demonstrator(self._sim, Demonstration(hold_steps=_TO_THE_END))
        for seed in seeds:
            trace = demonstrator.trace(seed, self._make(self._sim.env_id))
            yield EpisodeResult(
                seed=seed,
                success_once=bool(trace.success.any()),
                success_at_end=bool(trace.success[-1]),
                first_choice=trace.first_choice,
                total_reward=float(sum(float(outcome.reward[0]) for outcome in trace.outcomes)),
                steps=len(trace.outcomes),
                instruction=trace.instruction,
                candidates=trace.candidates,
            )


class Trained:
    """A policy from a checkpoint."""

    def __init__(self, config: "EvalConfig") -> None:
        """Load the checkpoint (see `robomem.checkpoint.load` for the errors)."""
        assert config.checkpoint is not None
        self._config = config
        self.checkpoint = LoadedCheckpoint(config.checkpoint, config.device)
        self._replan_every = config.replan_every or self.checkpoint.policy.spec.horizon
        self.folder = self.checkpoint.output_folder("eval", config.sim.env_id, config.output_dir)
        self.configuration = {
            "env_id": config.sim.env_id,
            **self.checkpoint.identity,
            **sim_identity(config.sim),
            "start_seed": config.start_seed,
            "replan_every": self._replan_every,
            "noise_seed": config.noise_seed,
        }

    def play(self, seeds: Sequence[int]) -> Iterator[EpisodeResult]:
        """The episodes of some seeds, with videos of the first ones of the evaluation."""
        from robomem.video import VideoRecorder

        filmed = set(range(self._config.start_seed, self._config.start_seed + self._config.videos))
        with closing(open_environment(self._config.sim, len(seeds))) as environment:
            yield from rollout(
                self.checkpoint.policy,
                environment,
                seeds,
                replan_every=self._replan_every,
                recorder=VideoRecorder(self.folder / "videos", filmed, 1 / environment.embodiment.action_dt),
                noise_seed=self._config.noise_seed,
            )


class LoadedCheckpoint:
    """A policy with what names it in records."""

    def __init__(self, path: str, device: str) -> None:
        """Load a checkpoint, or the newest one of a run (see `robomem.checkpoint.load` for the errors)."""
        from robomem import checkpoint
        from robomem.devices import find_device

        self._given = Path(path)
        folder, where = checkpoint.resolve(self._given), find_device(device)
        self.policy: Policy = checkpoint.load(folder, where)
        self.identity = {
            "policy": checkpoint.policy_config(folder)["name"],
            "checkpoint_digest": checkpoint.digest(folder),
            "device": where.type,
        }

    def output_folder(self, kind: str, env_id: str, chosen: str | None) -> Path:
        """Where records go: the chosen folder, or one in the run (or checkpoint) that was given."""
        return Path(chosen) if chosen is not None else self._given / kind / env_id


def sim_identity(sim: "SimConfig") -> dict[str, Any]:
    """What of the simulation determines results: on a GPU also the number of rows."""
    identity: dict[str, Any] = {"render": sim.render, "backend": sim.backend}
    if sim.instruction:
        identity["instruction"] = sim.instruction
    return identity | ({"workers": sim.workers} if sim.backend == "gpu" else {})


def open_environment(sim: "SimConfig", episodes: int) -> "Environment":
    """An environment with no more worker processes than episodes."""
    from robomem.sim.vector import make_environment

    workers = sim.workers or len(os.sched_getaffinity(0))
    return make_environment(replace(sim, workers=min(workers, episodes) if sim.backend == "cpu" else sim.workers))
