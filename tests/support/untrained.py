"""The product's own policies before their first training step."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from hydra import compose, initialize_config_module
from torch import nn

from robomem import checkpoint
from robomem.config import TrainConfig, register_schemas, to_dataclass
from robomem.policies.build import build_policy
from robomem.spec import EmbodimentSpec, PolicySpec
from robomem.statistics import Statistics, VectorStatistics


@dataclass(frozen=True)
class Untrained:
    """A policy with what a checkpoint needs beside it."""

    policy: nn.Module
    config: dict[str, Any]
    spec: PolicySpec
    statistics: Statistics

    def save(self, run_dir: Path) -> Path:
        """Make it the checkpoint of a run, whose folder is returned."""
        folder = run_dir / "checkpoints" / "step-00000000"
        checkpoint.save(folder, self.policy, self.config, self.spec, self.statistics)
        return run_dir


def untrained(embodiment: EmbodimentSpec, *overrides: str) -> Untrained:
    """The policy that `robomem train` would begin with under some overrides."""
    register_schemas()
    with initialize_config_module("robomem.configs", version_base="1.3"):
        composed = compose("train", [*overrides, "max_steps=1", "data.root=none"])
    config = to_dataclass(composed, TrainConfig).policy
    vectors = {name: _statistics(getattr(embodiment, name).size) for name in ("proprio", "action")}
    statistics = Statistics(**vectors, ticks=1)
    spec = PolicySpec(
        **vars(embodiment),
        horizon=config["horizon"],
        observe_period=embodiment.action_dt,
        max_gap=1.0,
        statistics_hash=statistics.digest,
    )
    torch.manual_seed(0)
    return Untrained(build_policy(config, spec, statistics), config, spec, statistics)


def _statistics(size: int) -> VectorStatistics:
    return VectorStatistics(mean=(0.0,) * size, std=(1.0,) * size, low=(-1.0,) * size, high=(1.0,) * size)
