"""What heads share that make a chunk from noise in several steps."""

from collections.abc import Callable

import torch
from jaxtyping import Float
from torch import Tensor, nn

from robomem.contract import Prefix
from robomem.errors import RobomemError
from robomem.policies.heads.base import Head, Sample, weighted_mean
from robomem.policies.heads.mlp import ConditionalMLP
from robomem.policies.heads.trunk import Code, MakeTrunk

LEVEL_CHANNELS = 32
"""Entries of the code of a noise level."""

Estimate = Callable[[Float[Tensor, "B H A"], float], Float[Tensor, "B H A"]]
"""(noisy chunk, its level) -> the clean chunk that it seems to come from."""


class Generative(Head):
    """Learns to undo noise; the subclass says how noise enters a chunk and by which steps it is undone."""

    def __init__(
        self,
        *,
        context: int,
        horizon: int,
        action: int,
        trunk: MakeTrunk = ConditionalMLP,
        draws: int = 4,
        sample_steps: int = 10,
        context_dropout: float = 0.0,
        guidance: float = 1.0,
    ) -> None:
        """Build the trunk.

        Args:
            context: Size of the context vector.
            horizon: Actions of a chunk.
            action: Entries of an action.
            trunk: Makes the network.
            draws: M, noise draws per encoded context in training (level-2 minibatch of Mini-Diffuser,
                arXiv 2505.09430).
            sample_steps: Steps from noise to a chunk.
            context_dropout: Share of contexts that are replaced by a learned null context in training.
            guidance: Scale of classifier-free guidance (arXiv 2207.12598, there 1 + w); 1: none.

        Raises:
            RobomemError: guidance without a null context to move away from, or no context left to learn from.
        """
        inputs = horizon * action + LEVEL_CHANNELS
        super().__init__(inputs=inputs, context=context, horizon=horizon, action=action, trunk=trunk)
        if guidance != 1 and not context_dropout:
            raise RobomemError(
                f"guidance={guidance} needs a policy trained without its context now and then; "
                "set policy.head.context_dropout=0.1, or guidance=1"
            )
        if context_dropout >= 1:
            raise RobomemError(f"context_dropout={context_dropout} is a share of contexts, from 0 to less than 1")
        self.draws, self.sample_steps = draws, sample_steps
        self.context_dropout, self.guidance = context_dropout, guidance
        self.null = nn.Parameter(torch.zeros(context)) if context_dropout else None

    def loss(
        self, context: Float[Tensor, "B C"], actions: Float[Tensor, "B H A"], weight: Float[Tensor, "B H"]
    ) -> Tensor:
        """Weighted mean squared error, over `draws` noises per context."""
        clean = actions.repeat_interleave(self.draws, dim=0)
        noisy, target, level = self._corrupt(clean, torch.randn_like(clean))
        inputs = torch.cat([noisy.flatten(1), encode_level(level)], dim=-1).unflatten(0, (-1, self.draws))
        predicted = self.trunk(inputs, self.trunk.encode(self._drop(context)))
        error = (predicted - target.view_as(predicted)).square()
        return weighted_mean(error.unflatten(-1, self.shape).mean((1, 3)), weight)

    def sample(
        self, context: Float[Tensor, "B C"], noise: Float[Tensor, "B H A"], prefix: Prefix | None = None
    ) -> Sample:
        """Noise into a chunk; with a prefix by inpainting: at every step its actions stand in for what is estimated."""
        if self.guidance != 1 and self.null is not None:
            context = torch.cat([context, self.null.expand_as(context)])
        code, iterations = self.trunk.encode(context), []

        def estimate(noisy: Tensor, level: float) -> Tensor:
            outputs, taken = self._solve(noisy, level, code)
            iterations.append(taken)
            clean = self._clean(outputs, noisy, level)
            return prefix.pull(clean) if prefix else clean

        chunk = self._integrate(noise, estimate)
        return Sample(chunk, torch.stack(iterations, dim=1))

    def _corrupt(self, clean: Tensor, noise: Tensor) -> tuple[Tensor, Tensor, Float[Tensor, " B"]]:
        """Draw levels; the noisy chunks, what the trunk is to make of them, and the levels."""
        raise NotImplementedError

    def _clean(self, outputs: Tensor, noisy: Tensor, level: float) -> Tensor:
        """The clean chunk that the outputs of the trunk speak of."""
        raise NotImplementedError

    def _integrate(self, noise: Tensor, estimate: Estimate) -> Tensor:
        """From noise to a chunk."""
        raise NotImplementedError

    def _solve(
        self, noisy: Float[Tensor, "B H A"], level: float, code: Code
    ) -> tuple[Float[Tensor, "B H A"], Float[Tensor, " B"]]:
        """What the trunk makes of noisy chunks, guided if the code has a second half for the null context."""
        levels = encode_level(noisy.new_full((len(noisy),), level))
        inputs = torch.cat([noisy.flatten(1), levels], dim=-1)[:, None]
        contexts = len(code[0]) // len(noisy)
        outputs, iterations = self.trunk.solve(inputs.repeat(contexts, 1, 1), code)
        outputs = outputs.unflatten(0, (contexts, -1))
        guided = torch.lerp(outputs[-1], outputs[0], self.guidance) if contexts > 1 else outputs[0]
        return guided.view_as(noisy), iterations[: len(noisy), 0]

    def _drop(self, context: Float[Tensor, "B C"]) -> Float[Tensor, "B C"]:
        """Contexts, some of which are replaced by the null context."""
        if self.null is None:
            return context
        dropped = torch.rand(len(context), 1, device=context.device) < self.context_dropout
        return torch.where(dropped, self.null.to(context.dtype), context)


def encode_level(level: Float[Tensor, " B"]) -> Float[Tensor, "B L"]:
    """Sinusoidal code of noise levels in [0, 1]."""
    angles = level[:, None] * torch.logspace(-1, 2, LEVEL_CHANNELS // 2, device=level.device)
    return torch.cat([angles.sin(), angles.cos()], dim=-1)
