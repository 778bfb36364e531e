"""Does the training signal reach every parameter of the memory?"""

from typing import Any

import torch

from robomem.contract import Window


def memory_gradients(policy: Any, window: Window) -> dict[str, float]:
    """Norm of the gradient of the loss of one window at each parameter whose name starts with `memory.`.

    Args:
        policy: A policy that is a module.
        window: Whole episodes, on the policy's device.
    """
    rows = len(window.dt)
    parameters = {name: p for name, p in policy.named_parameters() if name.startswith("memory.") and p.requires_grad}
    if not parameters:
        return {}
    with torch.random.fork_rng():
        torch.manual_seed(0)
        losses, _ = policy.loss(window, policy.init_memory(rows))
    total = torch.stack([term.float() for term in losses.values()]).sum()
    if not total.requires_grad:
        return dict.fromkeys(parameters, 0.0)
    gradients = torch.autograd.grad(total, list(parameters.values()), allow_unused=True)
    return {
        name: 0.0 if gradient is None else float(gradient.float().norm())
        for name, gradient in zip(parameters, gradients, strict=True)
    }
