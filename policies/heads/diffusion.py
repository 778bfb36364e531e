"""Diffusion of the whole chunk (Diffusion Policy, arXiv 2303.04137), sampled by DDIM through `diffusers`."""

from typing import cast

import torch
from diffusers.schedulers.scheduling_ddim import DDIMScheduler
from jaxtyping import Float
from torch import IntTensor, Tensor

from robomem.policies.heads.base import Head
from robomem.policies.heads.trunk import ConditionalMLP

TIME_CHANNELS = 32


class Diffusion(Head):
    """Denoises a chunk under a context; deterministic given the noise it starts from (DDIM, eta 0)."""

    def __init__(
        self,
        *,
        context: int,
        horizon: int,
        action: int,
        width: int = 256,
        depth: int = 3,
        train_steps: int = 100,
        sample_steps: int = 10,
        draws: int = 4,
    ) -> None:
        """Build the denoiser.

        Args:
            context: Size of the context vector.
            horizon: Actions of a chunk.
            action: Entries of an action.
            width: Units of the denoiser.
            depth: Blocks of the denoiser.
            train_steps: Levels of noise (squared cosine schedule).
            sample_steps: DDIM steps.
            draws: Noise draws per encoded context in training (level-2 minibatch of Mini-Diffuser, arXiv 2505.09430).
        """
        super().__init__()
        self.shape = (horizon, action)
        self.draws, self.sample_steps = draws, sample_steps
        self.schedule = {
            "num_train_timesteps": train_steps,
            "beta_schedule": "squaredcos_cap_v2",
            "prediction_type": "sample",
            "clip_sample": True,
        }
        self.denoiser = ConditionalMLP(horizon * action, context + TIME_CHANNELS, horizon * action, width, depth)

    def loss(
        self, context: Float[Tensor, "B C"], actions: Float[Tensor, "B H A"], weight: Float[Tensor, "B H"]
    ) -> Tensor:
        """Weighted mean squared error of the denoised chunk, over `draws` noises per context."""
        scheduler = DDIMScheduler(**self.schedule)
        context, actions, weight = (x.repeat_interleave(self.draws, dim=0) for x in (context, actions, weight))
        time = torch.randint(self.schedule["num_train_timesteps"], (len(actions),), device=actions.device)
        noisy = scheduler.add_noise(actions, torch.randn_like(actions), cast("IntTensor", time))
        error = (self._denoise(noisy, time, context) - actions).square().mean(-1)
        return (error * weight).sum() / weight.sum().clamp_min(1)

    def sample(self, context: Float[Tensor, "B C"], noise: Float[Tensor, "B H A"]) -> Float[Tensor, "B H A"]:
        """Denoise standard normal noise into a chunk."""
        scheduler = DDIMScheduler(**self.schedule)
        scheduler.set_timesteps(self.sample_steps)
        chunk = noise
        for time in scheduler.timesteps.tolist():
            steps = torch.full((len(chunk),), time, device=chunk.device)
            chunk = scheduler.step(self._denoise(chunk, steps, context), time, chunk, return_dict=False)[0]
        return chunk

    def _denoise(self, noisy: Tensor, time: Tensor, context: Tensor) -> Tensor:
        condition = torch.cat([context, _encode_time(time)], dim=-1)
        return self.denoiser(noisy.flatten(1), condition).unflatten(-1, self.shape)


def _encode_time(time: Tensor) -> Float[Tensor, "B T"]:
    """Sinusoidal code of a diffusion step."""
    frequencies = torch.logspace(0, -3, TIME_CHANNELS // 2, device=time.device)
    angles = time[:, None].float() * frequencies
    return torch.cat([angles.sin(), angles.cos()], dim=-1)
