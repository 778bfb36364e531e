"""Flow matching of the whole chunk along straight paths (arXiv 2210.02747; as an action head pi0, arXiv 2410.24164)."""

import torch
from torch import Tensor

from robomem.policies.heads.generative import Estimate, Generative


class FlowMatching(Generative):
    """Predicts the velocity from noise (level 0) to chunk (level 1); integrated by Euler's method."""

    def _corrupt(self, clean: Tensor, noise: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        level = torch.rand(len(clean), device=clean.device)
        return torch.lerp(noise, clean, level[:, None, None]), clean - noise, level

    def _clean(self, outputs: Tensor, noisy: Tensor, level: float) -> Tensor:
        return noisy + (1 - level) * outputs

    def _integrate(self, noise: Tensor, estimate: Estimate) -> Tensor:
        chunk = noise
        for step in range(self.sample_steps):
            # An Euler step covers one of the steps that are left on the straight line to the estimate.
            clean = estimate(chunk, step / self.sample_steps)
            chunk = torch.lerp(chunk, clean, 1 / (self.sample_steps - step))
        return chunk
