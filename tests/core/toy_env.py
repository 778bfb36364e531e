"""A small memory task, policies for it, and its recorded episodes.

The task: a colour is shown for one or two ticks, then grey; from tick 3 on the end of a line that the colour stands for
is to be reached.
"""

from collections.abc import Sequence
from functools import partial
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn

from robomem.contract import ActionChunk, Memory, Observation, Prefix, Window, reset
from robomem.datasets.lerobot_writer import EpisodeWriter
from robomem.environment import Step
from robomem.episode import Episode
from robomem.evaluate import complete
from robomem.records import EpisodeLog
from robomem.rollout import rollout
from robomem.spec import CameraSpec, EmbodimentSpec, PolicySpec, VectorSpec

PIXELS = 8
HORIZON = 18
CHOICE_FROM = 3
INSTRUCTION = "go to the end that the colour stands for"
"""First tick at which a choice counts."""
EMBODIMENT = EmbodimentSpec(
    cameras=tuple(CameraSpec(name=name, height=PIXELS, width=PIXELS) for name in ("top", "wrist")),
    proprio=VectorSpec(names=("x",), units=("m",), frame="line", low=(-1.0,), high=(1.0,)),
    action=VectorSpec(names=("dx",), units=("0.25 m",), frame="line", low=(-1.0,), high=(1.0,)),
    action_dt=0.05,
)


def cue_of(seed: int) -> int:
    """0 (red, left end) or 1 (green, right end)."""
    return int(np.random.default_rng(seed).integers(2))


def cue_ticks(seed: int) -> int:
    """Ticks that show the cue."""
    return 1 + seed % 2


class CueEnvironment:
    """The task in N rows; episodes differ in length, and so does the time between observations."""

    def __init__(self, num_envs: int) -> None:
        self.embodiment, self.num_envs, self.horizon = EMBODIMENT, num_envs, HORIZON
        self.candidates = 2
        self.seeds = [0] * num_envs
        self.tick = np.zeros(num_envs, int)
        self.x = np.zeros(num_envs)
        self.done = np.ones(num_envs, bool)

    def reset(self, seeds: Sequence[int | None]) -> Observation:
        for row, seed in enumerate(seeds):
            if seed is not None:
                self.seeds[row], self.tick[row], self.x[row], self.done[row] = seed, 0, 0.0, False
        return self.observation()

    def step(self, actions: np.ndarray) -> Step:
        assert actions.shape == (self.num_envs, 1)
        assert (np.abs(actions) <= 1).all(), "the action leaves the limits"
        running = ~self.done
        self.x = np.where(running, np.clip(self.x + 0.25 * actions[:, 0], -1, 1), self.x)
        self.tick = self.tick + running
        target = np.array([2 * cue_of(seed) - 1 for seed in self.seeds])
        may = self.tick > CHOICE_FROM
        right, wrong = may & (np.abs(self.x - target) < 0.1), may & (np.abs(self.x + target) < 0.1)
        self.done = self.done | (self.tick >= HORIZON - np.array(self.seeds) % 3)
        return Step(
            observation=self.observation(),
            reward=-np.abs(self.x - target).astype(np.float32),
            success=right,
            done=self.done.copy(),
            choice=(right.astype(np.int8) - wrong.astype(np.int8)),
            elapsed=0.05 + 0.01 * (self.tick % 2),
        )

    def observation(self) -> Observation:
        image = np.full((self.num_envs, PIXELS, PIXELS, 3), 128, np.uint8)
        for row, seed in enumerate(self.seeds):
            if self.tick[row] < cue_ticks(seed):
                image[row] = (0, 255, 0) if cue_of(seed) else (255, 0, 0)
        images = {name: torch.from_numpy(image.copy()) for name in ("top", "wrist")}
        proprio = torch.from_numpy(self.x[:, None].astype(np.float32))
        return Observation(images, proprio, (INSTRUCTION,) * self.num_envs)

    def close(self) -> None:
        pass


def policy_spec(embodiment: EmbodimentSpec = EMBODIMENT, horizon: int = 4) -> PolicySpec:
    """A contract for an embodiment."""
    return PolicySpec(
        **vars(embodiment), horizon=horizon, observe_period=embodiment.action_dt, max_gap=1.0, statistics_hash="none"
    )


class Belief(nn.Module):
    """Keeps the last colour seen."""

    def __init__(self) -> None:
        super().__init__()
        self.gain = nn.Parameter(torch.ones(1))
        self.unused = nn.Parameter(torch.ones(1))

    def forward(self, belief: Tensor, seen: Tensor) -> Tensor:
        return torch.where(seen.abs() > 0.1, seen * self.gain, belief)


class ToyPolicy(nn.Module):
    """Goes where its belief points, if `remembers`, and otherwise right."""

    def __init__(self, remembers: bool = True, horizon: int = 4) -> None:
        super().__init__()
        self.spec = policy_spec(horizon=horizon)
        self.remembers = remembers
        self.memory = Belief()

    def init_memory(self, batch_size: int) -> Memory:
        state = {name: torch.zeros(batch_size, 1) for name in ("belief", "clock", "ticks")} if self.remembers else {}
        return Memory({"seen": torch.zeros(batch_size, 1), "x": torch.zeros(batch_size, 1)}, state)

    def observe(self, memory: Memory, observation: Observation, dt: Tensor) -> Memory:
        image = observation.images["top"].float().mean((1, 2)) / 255
        seen = image[:, 1:2] - image[:, :1]
        working = {"seen": seen, "x": observation.proprio}
        if not self.remembers:
            return Memory(working, {})
        state = {
            "belief": self.memory(memory.state["belief"], seen),
            "clock": memory.state["clock"] + dt[:, None],
            "ticks": memory.state["ticks"] + 1,
        }
        return Memory(working, state)

    def plan(self, memory: Memory, noise: Tensor, prefix: Prefix | None = None) -> ActionChunk:
        direction = memory.state["belief"] if self.remembers else torch.ones(len(noise), 1)
        actions = direction[:, None].expand(-1, self.spec.horizon, -1) + 0.01 * noise
        return ActionChunk(prefix.pull(actions) if prefix else actions)

    def loss(self, window: Window, memory: Memory) -> tuple[dict[str, Tensor], Memory]:
        total = torch.zeros(())
        for tick in range(window.dt.shape[1]):
            memory = reset(self, memory, window.is_first[:, tick])
            images = {name: image[:, tick] for name, image in window.observation.images.items()}
            observation = Observation(images, window.observation.proprio[:, tick], ("",) * len(window.dt))
            memory = memory.where(window.valid[:, tick], self.observe(memory, observation, window.dt[:, tick]))
            planned = self.plan(memory, torch.zeros_like(window.actions[:, tick])).actions
            error = (planned - window.actions[:, tick]).square() * window.action_valid[:, tick][..., None]
            total = total + error.sum()
        return {"action": total}, memory

    def diagnostics(self, memory: Memory) -> dict[str, Tensor]:
        if not self.remembers:
            return {}
        empty = memory.state["ticks"] < 2
        age = torch.cat([memory.state["clock"], memory.state["clock"].masked_fill(empty, torch.inf)], dim=1)
        return {
            "attention": torch.full_like(age, 0.5),
            "age": age,
            "gate": memory.state["belief"][:, 0] * self.memory.gain,
        }


class SweepPolicy(ToyPolicy):
    """Goes to the right end first and then to the left one."""

    def plan(self, memory: Memory, noise: Tensor, prefix: Prefix | None = None) -> ActionChunk:
        direction = torch.where(memory.state["ticks"] <= 6, 1.0, -1.0)
        actions = 5 * direction[:, None].expand(-1, self.spec.horizon, -1)
        return ActionChunk(prefix.pull(actions) if prefix else actions)


class RandomPolicy(nn.Module):
    """An untrained recurrent policy for any embodiment; its numbers depend on how a batch is computed."""

    def __init__(self, spec: PolicySpec) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.spec = spec
        inputs = 3 * len(spec.cameras) + spec.proprio.size
        self.encoder, self.memory = nn.Linear(inputs, 96), nn.GRUCell(96, 96)
        self.head = nn.Linear(192, spec.horizon * spec.action.size)

    def init_memory(self, batch_size: int) -> Memory:
        return Memory({"tokens": torch.zeros(batch_size, 96)}, {"hidden": torch.zeros(batch_size, 96)})

    def observe(self, memory: Memory, observation: Observation, dt: Tensor) -> Memory:
        pooled = [observation.images[camera.name].float().mean((1, 2)) / 255 for camera in self.spec.cameras]
        tokens = self.encoder(torch.cat([*pooled, observation.proprio], 1)).tanh() * (1 + dt[:, None])
        return Memory({"tokens": tokens}, {"hidden": self.memory(tokens, memory.state["hidden"])})

    def plan(self, memory: Memory, noise: Tensor, prefix: Prefix | None = None) -> ActionChunk:
        flat = self.head(torch.cat([memory.working["tokens"], memory.state["hidden"]], 1))
        actions = flat.view_as(noise) + 0.3 * noise
        return ActionChunk(prefix.pull(actions) if prefix else actions)

    def loss(self, window: Window, memory: Memory) -> tuple[dict[str, Tensor], Memory]:
        raise NotImplementedError


def record(seed: int) -> Episode:
    """A demonstration of the task with the labels that an audit asks for."""
    environment = CueEnvironment(1)
    observations, steps, times = [environment.reset([seed])], [], [0.0]
    action = np.array([[2.0 * cue_of(seed) - 1]], np.float32)
    while not steps or not steps[-1].done[0]:
        steps.append(environment.step(action if len(steps) >= CHOICE_FROM else 0 * action))
        observations.append(steps[-1].observation)
        times.append(times[-1] + float(steps[-1].elapsed[0]))
    ticks = len(steps)
    return Episode(
        images={c: np.stack([o.images[c][0].numpy() for o in observations[:ticks]]) for c in ("top", "wrist")},
        proprio=np.stack([o.proprio[0].numpy() for o in observations[:ticks]]),
        actions=np.repeat(action, ticks, 0) * (np.arange(ticks)[:, None] >= CHOICE_FROM),
        timestamps=np.array(times[:ticks]),
        reward=np.array([step.reward[0] for step in steps]),
        success=np.array([step.success[0] for step in steps]),
        instruction=observations[0].instruction[0],
        seed=seed,
        provenance={"cue": cue_of(seed), "cue_end": cue_ticks(seed)},
    )


def record_dataset(root: Path, episodes: int) -> Path:
    """A dataset of the seeds from 0 on."""
    with EpisodeWriter(root, EMBODIMENT, provenance={"env_id": "Cue"}) as writer:
        for seed in range(episodes):
            writer.save(record(seed))
    return root


def evaluate_toy(folder: Path, episodes: int) -> EpisodeLog:
    """Evaluate a policy in two rows."""
    with EpisodeLog(folder, {"env_id": "Cue"}) as log:
        complete(log, range(episodes), partial(rollout, ToyPolicy(), CueEnvironment(2), replan_every=3))
    return log
