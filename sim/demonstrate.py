"""Run a scripted controller: decide in state mode, render only what is kept."""

from dataclasses import asdict, dataclass, replace
from functools import cached_property
from importlib.metadata import version
from typing import Any

import numpy as np

from robomem.episode import Episode
from robomem.sim.choice import Candidates, candidates
from robomem.sim.config import Demonstration, SimConfig
from robomem.sim.oracles import Oracle, make_oracle
from robomem.sim.simulator import Outcome, Simulator
from robomem.sim.standin import assets
from robomem.spec import EmbodimentSpec


@dataclass(frozen=True)
class Trace:
    """A scripted episode without images."""

    labels: np.ndarray
    """(T, A) the controller's actions."""
    executed: np.ndarray
    """(T, A) the actions that were carried out."""
    outcomes: tuple[Outcome, ...]
    options: tuple[Candidates | None, ...]
    """What there was to choose from before each action (privileged)."""
    instruction: str

    @property
    def success(self) -> np.ndarray:
        """(T,) whether the task's condition held after each action."""
        return np.array([bool(outcome.success[0]) for outcome in self.outcomes])

    @property
    def candidates(self) -> int:
        """Between how many objects there was to choose; 0 if there was no choice."""
        first = self.options[0]
        return 0 if first is None else first.positions.shape[1]

    @property
    def first_choice(self) -> int:
        """1 if the right candidate was reached first, -1 a wrong one, 0 none."""
        return next((int(o.choice[0]) for o in self.outcomes if o.choice[0]), 0)


def recording(config: SimConfig, settings: Demonstration) -> dict[str, Any]:
    """What configuration alone says of how episodes are made, as JSON values."""
    return {"env_id": config.env_id, "render": config.render, "backend": config.backend, **asdict(settings)}


class Demonstrator:
    """Keeps a state-mode and a rendering simulation of one task in this process."""

    def __init__(self, config: SimConfig, settings: Demonstration) -> None:
        """Build the state-mode simulation; the rendering one is built at its first use."""
        self.config = config
        self.settings = settings
        self._fast = Simulator(replace(config, render="none"))

    @cached_property
    def _renderer(self) -> Simulator:
        return Simulator(self.config)

    @property
    def embodiment(self) -> EmbodimentSpec:
        """The robot of the task, with the cameras of its rendering."""
        return self._renderer.task.embodiment

    def provenance(self) -> dict[str, Any]:
        """JSON values that say how the episodes are made."""
        return {
            **recording(self.config, self.settings),
            "assets": assets(self.config.env_id),
            "versions": {name: version(name) for name in ("mani_skill", "mikasa-robo-suite", "sapien")},
        }

    def trace(self, seed: int, controller: Oracle) -> Trace:
        """Run a controller without images until it has succeeded and held, or the horizon."""
        _, instructions = self._fast.reset([seed])
        disturb = Disturbance(self.settings, seed)
        labels, executed, outcomes, options = [], [], [], []
        held = 0
        while not outcomes or not (outcomes[-1].done[0] or held > self.settings.hold_steps):
            options.append(candidates(self._fast.unwrapped))
            label = controller.act(self._fast.unwrapped)
            action = disturb(label)
            outcomes.append(self._fast.step(action[None]))
            labels.append(label)
            executed.append(action)
            held += bool(outcomes[-1].success[0])
        return Trace(np.stack(labels), np.stack(executed), tuple(outcomes), tuple(options), instructions[0])

    def demonstrate(self, seed: int, keep_failures: bool = False) -> Episode | None:
        """The oracle's episode of a seed with images, or None if it failed."""
        trace = self.trace(seed, make_oracle(self.config.env_id))
        if not (keep_failures or trace.success.any()):
            return None
        return self._render(seed, trace)

    def _render(self, seed: int, trace: Trace) -> Episode | None:
        """Replay the executed actions with images; None if the replay's success differs (not seen so far)."""
        simulator = self._renderer
        arrays, instructions = simulator.reset([seed])
        frames, rewards, success = [], [], []
        for action in trace.executed:
            frames.append(arrays)
            outcome = simulator.step(action[None])
            arrays = outcome.arrays
            rewards.append(outcome.reward[0])
            success.append(bool(outcome.success[0]))
        if success != trace.success.tolist():
            return None
        embodiment = simulator.task.embodiment
        return Episode(
            images={c.name: np.stack([f[c.name][0] for f in frames]) for c in embodiment.cameras},
            proprio=np.stack([f["proprio"][0] for f in frames]),
            actions=trace.labels,
            timestamps=np.arange(len(frames)) * embodiment.action_dt,
            reward=np.array(rewards, np.float32),
            success=np.array(success),
            instruction=instructions[0],
            seed=seed,
            provenance=_cue(trace),
        )


def _cue(trace: Trace) -> dict[str, int]:
    """Privileged labels for audits alone: which candidate was cued, and the first tick at which the cue is gone."""
    options = trace.options
    if not options or options[0] is None:
        return {}
    gone = (tick for tick, option in enumerate(options) if option and not option.cue_shown[0])
    return {"cue": int(options[0].target[0]), "cue_end": next(gone, len(options))}


class Disturbance:
    """Pushes the first moving ticks of an episode off course: a constant drift plus jitter, both drawn by the seed."""

    def __init__(self, settings: Demonstration, seed: int) -> None:
        """Draw the drift and for how long it lasts."""
        self._rng = np.random.default_rng(seed)
        self._noise = settings.noise
        self._left = int(self._rng.integers(settings.noise_steps + 1)) if settings.noise else 0
        self._drift = self._rng.normal(0, self._noise, 3)

    def __call__(self, action: np.ndarray) -> np.ndarray:
        """The action (A,) to carry out instead; holding still and everything but translation stay as they are."""
        if not (self._left and action[:3].any()):
            return action
        self._left -= 1
        push = self._drift + self._rng.normal(0, self._noise, 3)
        return np.concatenate([np.clip(action[:3] + push, -1, 1), action[3:]]).astype(np.float32)
