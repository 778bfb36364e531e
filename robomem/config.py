"""Schemas of the programs' configurations, and the edge at which Hydra's values become them.

Values are YAML groups in `configs/`; a key that no schema here has is refused. Only `policy` is open: its parts check
their own arguments when they are built. Nothing heavy is imported.
"""

import functools
import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields, is_dataclass
from typing import TYPE_CHECKING, Any

from robomem.datasets.config import DataConfig, FrameCodec
from robomem.errors import RobomemError, nearest
from robomem.sim.config import Demonstration, SimConfig

if TYPE_CHECKING:
    from omegaconf import DictConfig


@dataclass(frozen=True, kw_only=True)
class PathsConfig:
    """Where things lie; the only values that may depend on the machine."""

    data: str = "data"
    """Folder of datasets."""
    outputs: str = "outputs"
    """Folder of runs."""


@dataclass(frozen=True, kw_only=True)
class OptimConfig:
    """AdamW with a linear warm-up, then half a cosine down to the end of the run."""

    lr: float = 1e-3
    """Learning rate at the top."""
    final_lr: float = 0.0
    """Learning rate at the end, as a share of `lr`."""
    warmup_steps: int = 100
    weight_decay: float = 1e-4
    """Of matrices and kernels; biases, gains and other vectors have none."""
    clip: float = 1.0
    """Largest norm of the gradient."""
    ema: float = 0.0
    """Decay of the exponential moving average of the weights, which is then what the checkpoint acts with; 0: none."""

    def __post_init__(self) -> None:
        """Check the ranges."""
        _require(0 < self.lr < math.inf, f"optim.lr={self.lr} must be positive and finite")
        _require(0 <= self.final_lr <= 1, f"optim.final_lr={self.final_lr} is a share of optim.lr, from 0 to 1")
        _require(self.warmup_steps >= 0, f"optim.warmup_steps={self.warmup_steps} must not be negative")
        _require(
            0 <= self.weight_decay < math.inf,
            f"optim.weight_decay={self.weight_decay} must be finite and not negative",
        )
        _require(self.clip > 0, f"optim.clip={self.clip} must be positive; `inf` clips nothing")
        _require(0 <= self.ema < 1, f"optim.ema={self.ema} is a decay from 0 (none) to less than 1")


@dataclass(frozen=True, kw_only=True)
class CheckpointsConfig:
    """When checkpoints are written and which of them stay."""

    every: int = 500
    """Steps between checkpoints; the end of a run and an interruption write one too."""
    keep_last: int = 2
    """Newest checkpoints that stay."""
    keep_every: int = 0
    """Checkpoints at multiples of this step stay for good; 0: none."""

    def __post_init__(self) -> None:
        """Check the ranges."""
        _require(self.every > 0, f"checkpoints.every={self.every} must be positive")
        _require(self.keep_last > 0, f"checkpoints.keep_last={self.keep_last} must be positive")
        _require(self.keep_every >= 0, f"checkpoints.keep_every={self.keep_every} must not be negative; 0 keeps none")


@dataclass(frozen=True, kw_only=True)
class TrackerConfig:
    """Where the measurements of a run go; `metrics.jsonl` is always written."""

    every: int = 20
    """Steps between two lines; each is the mean over the steps since the line before."""
    tensorboard: bool = False
    """Write events for TensorBoard into the run's `tensorboard/` as well."""

    def __post_init__(self) -> None:
        """Check the range."""
        _require(self.every > 0, f"tracker.every={self.every} must be positive")


@dataclass(frozen=True, kw_only=True)
class TrainConfig:
    """One training run."""

    name: str = "???"
    """Of the run; the last part of its folder."""
    run_dir: str = "???"
    """Folder of the run. One that has checkpoints is continued."""
    resume: str | None = None
    """Folder of a run to continue with its own configuration."""
    seed: int = 0
    device: str = "auto"
    """`auto` (CUDA if there is a GPU), `cpu`, `cuda`, `cuda:1`, ..."""
    precision: str = "float32"
    """`float32`, or `bfloat16` for autocast."""
    max_steps: int | None = None
    """The run ends after so many steps, ..."""
    max_minutes: float | None = None
    """... or so many minutes of training, whichever comes first. The learning rate follows the share that is done."""
    policy: dict[str, Any] = field(default_factory=dict)
    """What `robomem.policies.build.build_policy` builds; stored in the checkpoint."""
    data: DataConfig = field(default_factory=DataConfig)
    optim: OptimConfig = field(default_factory=OptimConfig)
    checkpoints: CheckpointsConfig = field(default_factory=CheckpointsConfig)
    tracker: TrackerConfig = field(default_factory=TrackerConfig)
    paths: PathsConfig = field(default_factory=PathsConfig)

    def __post_init__(self) -> None:
        """Check what the types do not."""
        limits = [limit for limit in (self.max_steps, self.max_minutes) if limit is not None]
        _require(bool(limits), "the run has no end; set max_steps or max_minutes, for example max_steps=2000")
        _require(
            all(0 < limit < math.inf for limit in limits),
            "max_steps and max_minutes must be positive and finite; `null` sets no limit",
        )
        _require(
            self.precision in ("float32", "bfloat16"), f"precision={self.precision!r} is not one of float32, bfloat16"
        )
        _require(0 <= self.seed < 2**32, f"seed={self.seed} is not from 0 to {2**32 - 1}")
        name = self.policy.get("name")
        _require(
            isinstance(name, str) and re.fullmatch(r"[\w.+-]+", name) is not None,
            f"policy.name={name!r} must be letters, digits, and any of _ . + -",
        )
        _require(
            isinstance(self.policy.get("horizon"), int) and self.policy["horizon"] > 0,
            f"policy.horizon={self.policy.get('horizon')!r} must be a positive number of actions; set policy.horizon=8",
        )


@dataclass(frozen=True, kw_only=True)
class CollectConfig:
    """One recording of oracle trajectories."""

    root: str = "???"
    """Folder of the dataset; an existing one is continued."""
    sim: SimConfig = field(default_factory=SimConfig)
    demonstration: Demonstration = field(default_factory=Demonstration)
    episodes: int = 250
    """Episodes that the dataset shall hold."""
    start_seed: int = 0
    """First seed to try; the benchmark's evaluation begins at 4242424242."""
    max_seeds: int = 100_000
    """Seeds to try at most."""
    keep_failures: bool = False
    """Record episodes in which the oracle fails as well."""
    frames: FrameCodec = field(default_factory=FrameCodec)
    """How frames are stored."""
    paths: PathsConfig = field(default_factory=PathsConfig)

    def __post_init__(self) -> None:
        """Check the ranges."""
        _require(self.episodes > 0, f"episodes={self.episodes} must be positive")
        _require(self.start_seed >= 0, f"start_seed={self.start_seed} must not be negative")
        _require(self.max_seeds > 0, f"max_seeds={self.max_seeds} must be positive")


@dataclass(frozen=True, kw_only=True)
class EvalConfig:
    """One evaluation: one policy on one task."""

    checkpoint: str | None = None
    """Folder of a checkpoint, or of a run for its newest one."""
    baseline: str | None = None
    """In place of a checkpoint: `oracle`, which knows the answer, or `sweep`, which touches everything in order."""
    sim: SimConfig = field(default_factory=SimConfig)
    episodes: int = 50
    start_seed: int = 4242424242
    """Seed of the first episode; the others follow it."""
    replan_every: int | None = None
    """Ticks between plans; by default a chunk is carried out as a whole before the next plan."""
    noise_seed: int = 0
    """Seed of the noise that plans are drawn with."""
    device: str = "auto"
    """`auto` (CUDA if there is a GPU), `cpu`, `cuda`, `cuda:1`, ..."""
    videos: int = 4
    """Episodes to film, from the first on."""
    output_dir: str | None = None
    """Folder of the records; `eval/<env_id>` in that of the checkpoint by default."""
    overwrite: bool = False
    """Drop the records of another configuration instead of refusing them."""
    paths: PathsConfig = field(default_factory=PathsConfig)

    def __post_init__(self) -> None:
        """Check the choices and ranges."""
        _require(
            (self.checkpoint is None) != (self.baseline is None),
            "nothing to evaluate, or two things; give checkpoint=PATH (of a run or a checkpoint) or baseline=oracle",
        )
        _require(self.baseline in (None, "oracle", "sweep"), f"baseline={self.baseline!r} is not one of oracle, sweep")
        _require_plans(self.replan_every)
        _require(self.videos >= 0, f"videos={self.videos} must not be negative; 0 films nothing")
        _require(self.episodes > 0, f"episodes={self.episodes} must be positive")
        _require(self.start_seed >= 0, f"start_seed={self.start_seed} must not be negative")


@dataclass(frozen=True, kw_only=True)
class AuditConfig:
    """One audit: does a policy use its memory on a task?"""

    checkpoint: str = "???"
    """Folder of a checkpoint, or of a run for its newest one."""
    dataset: str = "???"
    """Folder of episodes of the task; their memories are what is measured, and put in place of the policy's own."""
    mapping: str = "auto"
    """What the fields of a dataset of others mean, as `data.mapping` of `robomem train`."""
    sim: SimConfig = field(default_factory=SimConfig)
    episodes: int = 20
    """Episodes in closed loop under each intervention; more of them detect a smaller drop."""
    start_seed: int = 4242424242
    """Seed of the first episode; the others follow it."""
    replan_every: int | None = None
    """Ticks between plans; by default a chunk is carried out as a whole before the next plan."""
    noise_seed: int = 0
    """Seed of the noise that plans are drawn with."""
    recorded: int = 128
    """Episodes of the dataset to measure at most."""
    donors: int = 8
    """Of these, those whose memories are kept, to be put in place of the policy's own."""
    device: str = "auto"
    """`auto` (CUDA if there is a GPU), `cpu`, `cuda`, `cuda:1`, ..."""
    output_dir: str | None = None
    """Folder of the records; `audit/<env_id>` in that of the checkpoint by default."""
    overwrite: bool = False
    """Drop the records of another configuration instead of refusing them."""
    paths: PathsConfig = field(default_factory=PathsConfig)

    def __post_init__(self) -> None:
        """Check the ranges."""
        _require(self.episodes > 0, f"episodes={self.episodes} must be positive")
        _require(self.start_seed >= 0, f"start_seed={self.start_seed} must not be negative")
        _require_plans(self.replan_every)
        _require(self.donors > 1, f"donors={self.donors} must be at least 2: one gives way to its own episode")
        _require(self.recorded >= self.donors, f"recorded={self.recorded} must be at least donors={self.donors}")


SCHEMAS: Mapping[str, type] = {"collect": CollectConfig, "train": TrainConfig, "eval": EvalConfig, "audit": AuditConfig}
"""The schema of each program; its YAML names it first in its defaults, as `<program>_schema`."""


def register_schemas() -> None:
    """Make all schemas known to Hydra."""
    from hydra.core.config_store import ConfigStore

    for name, schema in SCHEMAS.items():
        ConfigStore.instance().store(f"{name}_schema", typed_node(schema))


def typed_node(schema: type) -> "DictConfig":
    """The defaults of a schema, to merge values into; unknown keys and other types are refused."""
    from omegaconf import OmegaConf

    node = OmegaConf.structured(schema)
    _thaw(node)
    return node


def run_hydra(name: str, task: Callable[["DictConfig"], None]) -> None:
    """Compose a program's configuration from the command line and run a task with it.

    Raises:
        HydraException: a key, group or option that does not exist, or a value of another type.
    """
    import hydra

    register_schemas()
    hydra.main(version_base="1.3", config_path="pkg://robomem.configs", config_name=name)(task)()


def to_dataclass[T](config: "DictConfig", schema: type[T]) -> T:
    """The plain dataclasses, dictionaries and lists of a composed configuration.

    Raises:
        MissingMandatoryValue: a value that has to be given is not.
        RobomemError: a value out of its range, or a key that `+key=value` has added.
    """
    from omegaconf import OmegaConf
    from omegaconf.errors import OmegaConfBaseException

    _refuse_additions(config)
    OmegaConf.resolve(config)
    try:
        converted = OmegaConf.to_object(config)
    except OmegaConfBaseException:
        raise
    except ValueError as error:
        raise RobomemError(str(error)) from error
    assert isinstance(converted, schema), f"{type(converted).__name__} in place of {schema.__name__}"
    return converted


def hydra_program[T](name: str, schema: type[T]) -> Callable[[Callable[[T], None]], Callable[[], None]]:
    """Make a function of a dataclass the `main` of a program that is configured from the command line."""

    def decorate(task: Callable[[T], None]) -> Callable[[], None]:
        @functools.wraps(task)
        def main() -> None:
            run_hydra(name, lambda config: task(to_dataclass(config, schema)))

        del main.__wrapped__  # Its signature is not that of the task.
        return main

    return decorate


def _refuse_additions(node: Any, prefix: str = "") -> None:
    """Raise for a key that the node's schema does not have."""
    from omegaconf import DictConfig, OmegaConf

    schema: Any = OmegaConf.get_type(node)
    if not isinstance(node, DictConfig) or not is_dataclass(schema):
        return
    names = [entry.name for entry in fields(schema)]
    for key in node:
        if key not in names:
            raise RobomemError(f"unknown configuration key '{prefix}{key}'{nearest(str(key), names)}")
        _refuse_additions(node._get_node(key), f"{prefix}{key}.")


def _thaw(node: Any) -> None:
    """Let values be merged into the nodes of frozen dataclasses; the dataclasses made of them in the end are frozen."""
    from omegaconf import DictConfig, OmegaConf

    if isinstance(node, DictConfig):
        OmegaConf.set_readonly(node, None)
        for key in node:
            _thaw(node._get_node(key))


def _require_plans(replan_every: int | None) -> None:
    _require(
        replan_every is None or replan_every > 0,
        f"replan_every={replan_every} must be at least 1; `null` carries out a chunk as a whole",
    )


def _require(condition: bool, message: str) -> None:
    if not condition:
        raise RobomemError(message)
