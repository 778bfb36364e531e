"""The trunk of fixed depth."""

from typing import cast

from jaxtyping import Float
from torch import Tensor, nn

from robomem.policies.heads.trunk import Block, Code, SharedLinear, Trunk


class ConditionalMLP(Trunk):
    """Residual blocks on a vector, with inputs and context entering every block."""

    def __init__(self, *, inputs: int, context: int, outputs: int, width: int = 256, depth: int = 2) -> None:
        """Build `depth` blocks of `width` units; `inputs` may be 0."""
        super().__init__()
        self.enter = SharedLinear(inputs, context, width)
        self.blocks = nn.ModuleList(Block(width, inputs, context) for _ in range(depth))
        self.leave = nn.Linear(width, outputs)

    def encode(self, context: Float[Tensor, "B C"]) -> Code:
        """Every layer's share of the context."""
        return self.enter.encode(context), *(cast("Block", block).encode(context) for block in self.blocks)

    def forward(self, inputs: Float[Tensor, "B M I"], code: Code) -> Float[Tensor, "B M O"]:
        """Map inputs to outputs."""
        first, *others = code
        hidden = self.enter(inputs, first)
        for block, share in zip(self.blocks, others, strict=True):
            hidden = block(hidden, inputs, share)
        return self.leave(hidden)
