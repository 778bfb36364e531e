"""Networks between a context vector and an action chunk."""

import torch
from jaxtyping import Float
from torch import Tensor, nn


class ConditionalMLP(nn.Module):
    """Residual blocks on a vector, with the condition entering every block."""

    def __init__(self, inputs: int, condition: int, outputs: int, width: int, depth: int) -> None:
        """Build `depth` blocks of `width` units; `inputs` may be 0."""
        super().__init__()
        self.enter = nn.Linear(inputs + condition, width)
        self.blocks = nn.ModuleList(_Block(width, condition) for _ in range(depth))
        self.leave = nn.Linear(width, outputs)

    def forward(self, inputs: Float[Tensor, "B I"] | None, condition: Float[Tensor, "B C"]) -> Float[Tensor, "B O"]:
        """Map inputs to outputs under a condition."""
        hidden = self.enter(condition if inputs is None else torch.cat([inputs, condition], dim=-1))
        for block in self.blocks:
            hidden = block(hidden, condition)
        return self.leave(hidden)


class _Block(nn.Module):
    def __init__(self, width: int, condition: int) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.mix = nn.Linear(width + condition, width)
        self.out = nn.Linear(width, width)

    def forward(self, hidden: Tensor, condition: Tensor) -> Tensor:
        mixed = self.mix(torch.cat([self.norm(hidden), condition], dim=-1))
        return hidden + self.out(nn.functional.gelu(mixed))
