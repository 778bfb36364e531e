"""Diffusion of the whole chunk (Diffusion Policy, arXiv 2303.04137), sampled by DDIM through `diffusers`."""

from functools import cached_property
from typing import cast

import torch
from diffusers.schedulers.scheduling_ddim import DDIMScheduler
from torch import IntTensor, Tensor

from robomem.policies.heads.generative import Estimate, Generative

TRAIN_STEPS = 100
"""Levels of noise."""


class Diffusion(Generative):
    """Predicts the clean chunk; deterministic given the noise it starts from (DDIM, arXiv 2010.02502, eta 0)."""

    @cached_property
    def scheduler(self) -> DDIMScheduler:
        """The noise schedule; nothing of it changes once it is made."""
        scheduler = DDIMScheduler(
            num_train_timesteps=TRAIN_STEPS,
            beta_schedule="squaredcos_cap_v2",
            prediction_type="sample",
            clip_sample=False,  # an estimate is clipped before a prefix enters it
            timestep_spacing="trailing",  # the first step is that of pure noise, which is what it is given
        )
        scheduler.set_timesteps(self.sample_steps)
        return scheduler

    def _corrupt(self, clean: Tensor, noise: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        time = torch.randint(TRAIN_STEPS, (len(clean),), device=clean.device)
        return self.scheduler.add_noise(clean, noise, cast("IntTensor", time)), clean, time / TRAIN_STEPS

    def _clean(self, outputs: Tensor, noisy: Tensor, level: float) -> Tensor:
        del noisy, level
        return outputs.clamp(-1, 1)

    def _integrate(self, noise: Tensor, estimate: Estimate) -> Tensor:
        chunk = noise
        for time in self.scheduler.timesteps.tolist():
            clean = estimate(chunk, time / TRAIN_STEPS)
            chunk = self.scheduler.step(clean, time, chunk, return_dict=False)[0]
        return chunk
