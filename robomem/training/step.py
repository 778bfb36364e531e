"""One step of training, which refuses anything that is not finite."""

import math
from dataclasses import dataclass
from typing import cast

import torch
from torch import Tensor, nn

from robomem.contract import Memory, Policy, Window
from robomem.errors import NonFiniteError
from robomem.training.learner import Learner


@dataclass(frozen=True)
class StepSettings:
    """How a step computes."""

    device: torch.device
    autocast: bool
    """Compute in bfloat16 where that is safe."""
    clip: float
    """Largest norm of the gradient."""


def train_step(
    learner: Learner, window: Window, memory: Memory, lr: float, settings: StepSettings
) -> tuple[Memory, dict[str, float]]:
    """Learn from one window.

    Args:
        learner: Changed in place.
        window: On the settings' device.
        memory: What the rows carry from the window before, detached.
        lr: Learning rate.
        settings: How to compute.

    Returns:
        The detached memory to carry on, and measurements by name.

    Raises:
        NonFiniteError: a loss term or a gradient is NaN or infinite; it is named, and no weight has changed.
    """
    with torch.autocast(settings.device.type, torch.bfloat16, enabled=settings.autocast):
        losses, after = cast("Policy", learner.policy).loss(window, memory)
    parts = torch.stack([value.float() for value in losses.values()])
    terms = dict(zip(losses, parts.tolist(), strict=True))
    _check_terms(terms)
    parts.sum().backward()
    parameters = list(learner.policy.parameters())
    norm = nn.utils.get_total_norm([p.grad for p in parameters if p.grad is not None])
    if not torch.isfinite(norm):
        raise NonFiniteError(f"the gradient of {_broken_gradient(learner.policy)} is not finite")
    nn.utils.clip_grads_with_norm_(parameters, settings.clip, norm)
    for group in learner.optimizer.param_groups:
        group["lr"] = lr
    learner.optimizer.step()
    learner.optimizer.zero_grad()
    if learner.average:
        learner.average.update_parameters(learner.policy)
    values = {"loss": sum(terms.values()), **{f"loss/{name}": value for name, value in terms.items()}}
    return after.map(_carry), {**values, "lr": lr, "grad_norm": float(norm)}


def _carry(tensor: Tensor) -> Tensor:
    # Contiguous, as a restored one is: another layout may round differently.
    return tensor.detach().contiguous()


def _check_terms(terms: dict[str, float]) -> None:
    for name, value in terms.items():
        if not math.isfinite(value):
            raise NonFiniteError(f"the loss term {name!r} is {value}")


def _broken_gradient(policy: nn.Module) -> str:
    """The first parameter whose gradient is not finite."""
    for name, parameter in policy.named_parameters():
        if parameter.grad is not None and not torch.isfinite(parameter.grad).all():
            return name
    return "all parameters together"
