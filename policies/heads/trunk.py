"""What every trunk offers: the network of a head, whatever its objective."""

from collections.abc import Callable
from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional

Code = tuple[Float[Tensor, "R 1 W"], ...]
"""What a trunk makes of a context, once for all that it maps under it."""


class Solution(NamedTuple):
    """What a trunk arrives at."""

    outputs: Float[Tensor, "B M O"]
    iterations: Float[Tensor, "B M"]
    """How often its core ran; 1 for a trunk of fixed depth."""


class Trunk(nn.Module):
    """Maps inputs to outputs under a context; the M inputs of a context know nothing of each other.

    A context is encoded once, for all noise draws in training (the level-2 minibatch of Mini-Diffuser,
    arXiv 2505.09430) and for all steps of a sampler.
    """

    def encode(self, context: Float[Tensor, "B C"]) -> Code:
        """The part of the work that depends on the context alone."""
        raise NotImplementedError

    def forward(self, inputs: Float[Tensor, "B M I"], code: Code) -> Float[Tensor, "B M O"]:
        """Outputs to be trained; may draw from PyTorch's global generator."""
        raise NotImplementedError

    def solve(self, inputs: Float[Tensor, "B M I"], code: Code) -> Solution:
        """Outputs to act on; deterministic, and each of the B x M is the same whatever the others are."""
        outputs = self(inputs, code)
        return Solution(outputs, outputs.new_ones(outputs.shape[:2]))


MakeTrunk = Callable[..., Trunk]
"""A trunk's class or a partial of it: a function of the sizes `inputs`, `context` and `outputs`."""


class SharedLinear(nn.Module):
    """A linear layer of [inputs, context] that is given its share of the context, computed once for many inputs."""

    def __init__(self, inputs: int, context: int, outputs: int) -> None:
        """Build one layer, initialised as a whole; `inputs` may be 0."""
        super().__init__()
        self.own = nn.Linear(inputs, outputs, bias=False) if inputs else None
        self.shared = nn.Linear(context, outputs)
        bound = (inputs + context) ** -0.5
        for parameter in self.parameters():
            nn.init.uniform_(parameter, -bound, bound)

    def encode(self, context: Float[Tensor, "B C"]) -> Float[Tensor, "B 1 O"]:
        """The share of the context, with the bias."""
        return self.shared(context)[:, None]

    def forward(self, inputs: Float[Tensor, "B M I"], code: Float[Tensor, "B 1 O"]) -> Float[Tensor, "B M O"]:
        """The layer's output for M inputs of each context."""
        return code.expand(-1, inputs.shape[1], -1) if self.own is None else self.own(inputs) + code


class Block(nn.Module):
    """A residual block that sees the inputs and the context again."""

    def __init__(self, width: int, inputs: int, context: int) -> None:
        """Build a block of `width` units."""
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.mix = SharedLinear(width + inputs, context, width)
        self.out = nn.Linear(width, width)

    def encode(self, context: Float[Tensor, "B C"]) -> Float[Tensor, "B 1 W"]:
        """The share of the context."""
        return self.mix.encode(context)

    def forward(
        self, hidden: Float[Tensor, "B M W"], inputs: Float[Tensor, "B M I"], code: Float[Tensor, "B 1 W"]
    ) -> Float[Tensor, "B M W"]:
        """Refine hidden units."""
        mixed = self.mix(torch.cat([self.norm(hidden), inputs], dim=-1), code)
        return hidden + self.out(functional.gelu(mixed))
