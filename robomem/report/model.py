"""What a report shows, as values: runs with their training metrics, evaluations and audits."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class Interval:
    """A proportion with its 95% Wilson interval."""

    count: int
    episodes: int
    rate: float
    low: float
    high: float


@dataclass(frozen=True)
class Episode:
    """The outcome of one evaluated episode."""

    seed: int
    success_once: bool
    success_at_end: bool
    first_choice: int
    """1 the right candidate, -1 a wrong one, 0 none."""
    total_return: float
    steps: int


@dataclass(frozen=True)
class Latency:
    """Milliseconds per call: median and 99th percentile; None where it was not called."""

    observe_p50: float | None
    observe_p99: float | None
    plan_p50: float | None
    plan_p99: float | None


@dataclass(frozen=True)
class Evaluation:
    """A closed-loop evaluation on one task."""

    path: Path
    env_id: str
    policy: str
    checkpoint: str
    render: str
    backend: str
    start_seed: int
    episodes: int
    success_once: Interval
    success_at_end: Interval
    first_choice: Interval | None
    """None where the task offers no choice between candidates."""
    mean_return: float
    mean_steps: float
    latency: Latency
    versions: Mapping[str, str]
    digest: str
    command: str
    """What makes it again."""
    chance: float | None
    """First choices that guessing gets right; None where the task offers no choice."""
    instruction: str
    config: Mapping[str, Any]
    records: tuple[Episode, ...]
    """By seed."""
    videos: Mapping[int, Path]
    """By seed."""


@dataclass(frozen=True)
class Intervention:
    """What happens when the memory is tampered with in one way."""

    name: str
    success_once: Interval
    first_choice: Interval | None
    action_change: float


@dataclass(frozen=True)
class Retained:
    """How well the cue can be decoded from the memory some ticks after it."""

    ticks: int
    accuracy: float
    low: float
    high: float
    episodes: int
    chance: float
    from_observation: float | None
    """Accuracy from the observation of that tick alone, without memory."""


@dataclass(frozen=True)
class Trace:
    """What the memory read at each tick of one episode."""

    seed: int
    ticks: tuple[int, ...]
    attention: tuple[tuple[float, ...], ...]
    """Weight of each entry, per tick."""
    age: tuple[tuple[float, ...], ...]
    """Seconds since each entry was written, per tick; NaN for an empty one."""
    gate: tuple[float, ...]


@dataclass(frozen=True)
class Audit:
    """Whether a policy uses its memory, on one task."""

    path: Path
    env_id: str
    interventions: tuple[Intervention, ...]
    gradients: Mapping[str, float]
    dead_parameters: tuple[str, ...]
    retention: tuple[Retained, ...]
    verdict: str
    reasons: tuple[str, ...]
    trace: Trace | None
    frames: Mapping[int, Path]
    """Pictures of the trace's episode by tick, all cameras side by side."""
    command: str
    """What makes it again."""


@dataclass(frozen=True)
class Unfinished:
    """An evaluation or an audit that was begun."""

    env_id: str
    policy: str
    episodes: int
    """Results so far."""
    command: str
    """What goes on with it."""


@dataclass(frozen=True)
class Camera:
    """One camera; its size in pixels."""

    name: str
    height: int
    width: int


@dataclass(frozen=True)
class Git:
    """The state of the source tree of a run."""

    sha: str
    dirty: bool | None
    """Whether there were local changes; None where that is not known."""
    diff: str


@dataclass(frozen=True)
class Run:
    """A training run with what was measured on it, or a baseline that was only evaluated."""

    path: Path
    name: str
    """Unique within a report."""
    kind: str
    """`memory`, `memoryless` or `baseline`."""
    memory: str
    """Name of the memory module; empty for a baseline."""
    cameras: tuple[Camera, ...]
    """From left to right in its pictures; empty where no checkpoint says it."""
    config: Mapping[str, Any]
    overrides: tuple[str, ...]
    git: Git | None
    metrics: Mapping[str, tuple[tuple[int, float], ...]]
    """(step, value) of everything logged in training, by name."""
    evaluations: Mapping[str, Evaluation]
    """By environment id."""
    audits: Mapping[str, Audit]
    """By environment id."""
    unfinished_evaluations: Mapping[str, Unfinished]
    """By environment id."""
    unfinished_audits: Mapping[str, Unfinished]
    """By environment id."""

    @property
    def trained(self) -> bool:
        """Whether this is a training run."""
        return self.kind != "baseline"
