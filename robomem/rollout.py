"""Closed loop: one policy, many episodes side by side, each as if it were alone."""

import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, Self

import numpy as np
import torch
from jaxtyping import Float, UInt8
from numpy import ndarray
from torch import Tensor

from robomem.checkpoint import check_environment
from robomem.contract import Memory, Observation, Policy
from robomem.environment import Environment, Step
from robomem.errors import NonFiniteError, RobomemError, SpecMismatch
from robomem.rows import PerRow, device_of, join, select, split

Intervention = Callable[[Memory, int, int], Memory]
"""(memory of one row, seed of its episode, tick about to be observed) -> the memory to go on with."""


@dataclass(frozen=True, kw_only=True)
class EpisodeResult:
    """What one episode came to."""

    seed: int
    success_once: bool
    """The task's condition held at some tick."""
    success_at_end: bool
    """The task's condition held at the last tick."""
    first_choice: int
    """1 if the right candidate was reached first, -1 if a wrong one was, 0 if none was or the task has none."""
    total_reward: float
    steps: int
    observe_ms: tuple[float, ...] = ()
    """Milliseconds of each `observe`."""
    plan_ms: tuple[float, ...] = ()
    """Milliseconds of each `plan`."""
    instruction: str = ""
    """What the robot was told."""
    candidates: int = 0
    """Objects that the task asks to choose between, 0 if it offers no choice."""
    intervention: str = "none"
    """What was done to the memory between ticks."""

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON: the outcome, mean latencies, and every latency to 0.01 ms."""
        return {
            **self.outcome(),
            "instruction": self.instruction,
            "candidates": self.candidates,
            "observe_ms": _mean(self.observe_ms),
            "plan_ms": _mean(self.plan_ms),
            "latencies_ms": {
                "observe": [round(x, 2) for x in self.observe_ms],
                "plan": [round(x, 2) for x in self.plan_ms],
            },
        }

    def outcome(self) -> dict[str, Any]:
        """The part that the same seed on the same machine repeats exactly."""
        return {
            "seed": self.seed,
            "success_once": self.success_once,
            "success_at_end": self.success_at_end,
            "first_choice": self.first_choice,
            "return": self.total_reward,
            "steps": self.steps,
            "intervention": self.intervention,
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Self:
        """Inverse of `to_dict`."""
        values = dict(data)
        latencies = values.pop("latencies_ms")
        values |= {"observe_ms": tuple(latencies["observe"]), "plan_ms": tuple(latencies["plan"])}
        return cls(total_reward=values.pop("return"), **values)


class Recorder(Protocol):
    """Receives what the cameras see."""

    def frame(self, seed: int, tick: int, images: Mapping[str, UInt8[ndarray, "Y X 3"]], success: bool) -> None:
        """An observation of a running episode; `success` tells whether it has succeeded so far."""
        ...

    def finish(self, result: EpisodeResult) -> None:
        """The end of an episode, before its result is handed out."""
        ...


def rollout(
    policy: Policy,
    environment: Environment,
    seeds: Sequence[int],
    *,
    replan_every: int,
    intervene: Intervention | None = None,
    recorder: Recorder | None = None,
    noise_seed: int = 0,
) -> Iterator[EpisodeResult]:
    """Run an episode for each seed and hand out results as episodes end.

    The policy observes on every control tick and plans on every `replan_every`-th, the actions between being those of
    the chunk. On a CPU it runs row by row, so that a result depends on its seed alone, whatever the number of rows or
    the order of seeds.

    Args:
        policy: What acts.
        environment: Rows to fill with episodes; one that ends makes room for the next seed at once.
        seeds: Seed of each episode.
        replan_every: Ticks between plans, from 1 to the policy's horizon.
        intervene: Applied to the memory of a row before each observation.
        recorder: Receives the images.
        noise_seed: Seed of the noise that plans are drawn with.

    Raises:
        SpecMismatch: policy and environment do not fit.
        NonFiniteError: the policy planned a NaN or an infinity; names seed and tick.
        RobomemError: `replan_every` is out of range, or the environment failed. All results handed out before stand.
    """
    check(policy, environment, replan_every)
    loop = _Loop(policy, environment, replan_every, intervene, recorder, noise_seed)
    yield from loop.run(seeds)


def check(policy: Policy, environment: Environment, replan_every: int) -> None:
    """Raise unless the policy can act in the environment (see `rollout`)."""
    check_environment(policy, environment)
    spec, period = policy.spec, environment.embodiment.action_dt
    if period > spec.max_gap:
        raise SpecMismatch(f"the environment observes every {period} s, the policy is trusted up to {spec.max_gap} s")
    if not 1 <= replan_every <= spec.horizon:
        raise RobomemError(f"replan_every={replan_every} is not within the policy's chunk of 1 to {spec.horizon}")


def plan_noise(noise_seed: int, seed: int, plan: int, shape: tuple[int, int]) -> Float[Tensor, "H A"]:
    """Standard normal noise of one plan of one episode."""
    noise = np.random.default_rng([noise_seed, seed, plan]).standard_normal(shape, np.float32)
    return torch.from_numpy(noise)


@dataclass
class _Row:
    """An episode under way."""

    seed: int
    memory: Memory
    candidates: int
    instruction: str = ""
    elapsed: float = 0.0
    """Seconds between the last two observations."""
    tick: int = 0
    chunk: ndarray | None = None
    success: bool = False
    success_once: bool = False
    first_choice: int = 0
    total_reward: float = 0.0
    observe_ms: list[float] = field(default_factory=list)
    plan_ms: list[float] = field(default_factory=list)

    def account(self, step: Step, row: int) -> None:
        """Take in the outcome of an action."""
        self.tick += 1
        self.elapsed = float(step.elapsed[row])
        self.success = bool(step.success[row])
        self.success_once |= self.success
        self.first_choice = self.first_choice or int(step.choice[row])
        self.total_reward += float(step.reward[row])

    def result(self) -> EpisodeResult:
        """The finished episode."""
        return EpisodeResult(
            seed=self.seed,
            success_once=self.success_once,
            success_at_end=self.success,
            first_choice=self.first_choice,
            total_reward=self.total_reward,
            steps=self.tick,
            observe_ms=tuple(self.observe_ms),
            plan_ms=tuple(self.plan_ms),
            instruction=self.instruction,
            candidates=self.candidates,
        )


class _Loop:
    """The state of one rollout."""

    def __init__(
        self,
        policy: Policy,
        environment: Environment,
        replan_every: int,
        intervene: Intervention | None,
        recorder: Recorder | None,
        noise_seed: int,
    ) -> None:
        self._device = device_of(policy)
        self._serial = self._device.type == "cpu"
        self._policy = PerRow(policy) if self._serial else policy
        self._environment, self._replan_every = environment, replan_every
        self._intervene, self._recorder, self._noise_seed = intervene, recorder, noise_seed
        self._rows: dict[int, _Row] = {}
        action = environment.embodiment.action
        self._low, self._high = np.array(action.low, np.float32), np.array(action.high, np.float32)
        self._chunk_shape = (policy.spec.horizon, action.size)

    def run(self, seeds: Sequence[int]) -> Iterator[EpisodeResult]:
        """See `rollout`."""
        waiting = deque(seeds)
        if not waiting:
            return
        observation = self._fill(range(self._environment.num_envs), waiting)
        while self._rows:
            self._observe(observation)
            step = self._environment.step(self._actions())
            observation = step.observation
            for index, row in self._rows.items():
                row.account(step, index)
            ended = [index for index in self._rows if step.done[index]]
            self._record(observation, self._rows)
            for index in ended:
                yield self._finish(index)
            if ended and waiting:
                observation = self._fill(ended, waiting)

    def _fill(self, free: Sequence[int], waiting: deque[int]) -> Observation:
        """Start the next seeds in free rows; the first time, spare rows get a seed too, which nobody plays."""
        first = not self._rows and len(free) == self._environment.num_envs
        seeds: list[int | None] = [waiting[0] if first else None] * self._environment.num_envs
        started = list(free)[: len(waiting)]
        for index in started:
            seeds[index] = seed = waiting.popleft()
            self._rows[index] = _Row(seed, self._start(), self._environment.candidates)
        observation = self._environment.reset(seeds)
        for index in started:
            self._rows[index].instruction = observation.instruction[index]
        self._record(observation, started)
        return observation

    @torch.inference_mode()
    def _start(self) -> Memory:
        return self._policy.init_memory(1)

    @torch.inference_mode()
    def _observe(self, observation: Observation) -> None:
        """Fold the newest observation into the memory of every running row, and plan where it is time."""
        rows = list(self._rows.values())
        seen = select(observation, list(self._rows)).to(self._device)
        dt = torch.tensor([row.elapsed for row in rows], dtype=torch.float32, device=self._device)
        if self._intervene:
            for row in rows:
                row.memory = self._intervene(row.memory, row.seed, row.tick)
        began = self._now()
        memories = split(self._policy.observe(join([row.memory for row in rows]), seen, dt))
        spent = self._spent(began, len(rows))
        for row, memory in zip(rows, memories, strict=True):
            row.memory = memory
            row.observe_ms.append(spent)
        self._plan([row for row in rows if row.tick % self._replan_every == 0])

    def _plan(self, rows: list[_Row]) -> None:
        if not rows:
            return
        numbers = [row.tick // self._replan_every for row in rows]
        noise = [
            plan_noise(self._noise_seed, row.seed, number, self._chunk_shape)
            for row, number in zip(rows, numbers, strict=True)
        ]
        began = self._now()
        chunk = self._policy.plan(join([row.memory for row in rows]), torch.stack(noise).to(self._device))
        spent = self._spent(began, len(rows))
        actions = chunk.actions.float().cpu().numpy()
        for row, planned in zip(rows, actions, strict=True):
            if not np.isfinite(planned).all():
                raise NonFiniteError(
                    f"the policy planned a NaN or an infinity at tick {row.tick} of the episode with seed {row.seed};"
                    " its weights or inputs are broken: look at the training loss and the observations"
                )
            row.chunk = planned
            row.plan_ms.append(spent)

    def _actions(self) -> Float[ndarray, "B A"]:
        """The action of every row, within the limits; zero where no episode runs."""
        actions = np.zeros((self._environment.num_envs, len(self._low)), np.float32)
        for index, row in self._rows.items():
            assert row.chunk is not None
            actions[index] = row.chunk[row.tick % self._replan_every]
        return np.clip(actions, self._low, self._high)

    def _finish(self, index: int) -> EpisodeResult:
        result = self._rows.pop(index).result()
        if self._recorder:
            self._recorder.finish(result)
        return result

    def _record(self, observation: Observation, rows: Iterable[int]) -> None:
        if self._recorder:
            for index in rows:
                row = self._rows[index]
                images = {name: image[index].cpu().numpy() for name, image in observation.images.items()}
                self._recorder.frame(row.seed, row.tick, images, row.success_once)

    def _now(self) -> float:
        if self._device.type == "cuda":
            torch.cuda.synchronize(self._device)
        return time.perf_counter()

    def _spent(self, began: float, rows: int) -> float:
        """Milliseconds that one row had to wait."""
        return 1000 * (self._now() - began) / (rows if self._serial else 1)


def _mean(values: Sequence[float]) -> float | None:
    return round(sum(values) / len(values), 3) if values else None
