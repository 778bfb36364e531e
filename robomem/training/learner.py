"""What learns: the policy, its optimizer, and optionally the moving average of its weights."""

import math
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import AdamW
from torch.optim.swa_utils import AveragedModel

from robomem.config import OptimConfig


@dataclass(frozen=True)
class Learner:
    """The modules and the optimizer of a run."""

    policy: nn.Module
    optimizer: AdamW
    average: AveragedModel | None

    @property
    def acting(self) -> nn.Module:
        """The policy that is to be evaluated: the moving average if there is one."""
        return self.average.module if self.average else self.policy


def make_learner(policy: nn.Module, config: OptimConfig) -> Learner:
    """A learner at the start of a run."""
    average = AveragedModel(policy, multi_avg_fn=_moving_average(config.ema)) if config.ema else None
    return Learner(policy, _make_optimizer(policy, config), average)


def learning_rate(config: OptimConfig, step: int, share: float) -> float:
    """The learning rate of a step.

    Args:
        config: Its highest and final value.
        step: Steps done.
        share: Share of the run that is done, from 0 to 1.
    """
    warmup = min(1.0, (step + 1) / config.warmup_steps) if config.warmup_steps else 1.0
    cosine = (1 + math.cos(math.pi * share)) / 2
    return config.lr * warmup * (config.final_lr + (1 - config.final_lr) * cosine)


def _make_optimizer(policy: nn.Module, config: OptimConfig) -> AdamW:
    trained = [(name, parameter) for name, parameter in policy.named_parameters() if parameter.requires_grad]
    groups: list[dict[str, Any]] = [
        {"params": [(n, p) for n, p in trained if p.ndim > 1], "weight_decay": config.weight_decay},
        {"params": [(n, p) for n, p in trained if p.ndim <= 1], "weight_decay": 0.0},
    ]
    return AdamW([group for group in groups if group["params"]], lr=config.lr)


def _moving_average(decay: float) -> Any:
    """Exponential moving average with a decay that starts low, so that a short run forgets its random start."""

    def update(averaged: list[Tensor], current: list[Tensor], count: Tensor) -> None:
        steps = int(count)
        weight = 1 - min(decay, (1 + steps) / (10 + steps))
        for mean, value in zip(averaged, current, strict=True):
            mean.lerp_(value, weight) if mean.is_floating_point() else mean.copy_(value)

    return torch.no_grad()(update)
