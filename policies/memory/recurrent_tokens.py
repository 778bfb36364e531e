"""Memory tokens whose hidden states are the next observation's inputs: muVLA (arXiv 2606.12497)."""

import torch
from jaxtyping import Float
from torch import Tensor, nn

from robomem.policies.memory.attention import Attention, FeedForward
from robomem.policies.memory.base import State
from robomem.policies.memory.integrators import ContextTokens, MakeIntegrator
from robomem.policies.memory.reader import AGES, encode_age
from robomem.policies.memory.reads import ReadMemory, TokenRecurrence
from robomem.policies.tokens import Layout

DAMPING = 0.1
"""Scale of output projections to begin with: tokens change little, so that what was seen lasts to be learned."""


class RecurrentTokens(ReadMemory):
    """M tokens through a small transformer at every observation.

    The memory-action guard of muVLA holds by construction: memory tokens attend to the observation and to each other,
    and the head, where action tokens are, reads them but is not read. How far gradients go back in time is the length
    of the training window.
    """

    def __init__(
        self,
        layout: Layout,
        *,
        tokens: int = 16,
        depth: int = 2,
        heads: int = 2,
        integrator: MakeIntegrator = ContextTokens,
    ) -> None:
        """Build the transformer.

        Args:
            layout: Of the working tokens.
            tokens: M.
            depth: Of the transformer.
            heads: Of its attention.
            integrator: How the memory tokens enter the working tokens.
        """
        super().__init__(layout, _Transformer(layout.channels, tokens, depth, heads), integrator)


class _Transformer(TokenRecurrence):
    """The last norm keeps the tokens bounded, however often they re-enter."""

    def __init__(self, channels: int, tokens: int, depth: int, heads: int) -> None:
        super().__init__()
        self.initial = nn.Parameter(torch.randn(tokens, channels))
        self.elapsed = nn.Linear(2 * AGES, channels)
        self.layers = nn.ModuleList(_Layer(channels, heads) for _ in range(depth))
        self.norm = nn.LayerNorm(channels)

    def init(self, batch: int) -> State:
        """Learned tokens."""
        return {"tokens": self.initial.repeat(batch, 1, 1)}

    def step(
        self, state: State, inputs: Float[Tensor, "B N D"], dt: Float[Tensor, " B"]
    ) -> tuple[Float[Tensor, "B M D"], State]:
        """The tokens attend to each other, to the observation and to one more token that tells the elapsed time."""
        memory, inputs = state["tokens"], torch.cat([inputs, self.elapsed(encode_age(dt))[:, None]], dim=1)
        for layer in self.layers:
            memory = layer(memory, inputs)
        memory = self.norm(memory).float()
        return memory, {"tokens": memory}


class _Layer(nn.Module):
    """Memory tokens attend to each other, then to the observation."""

    def __init__(self, channels: int, heads: int) -> None:
        super().__init__()
        self.norm, self.cross_norm = nn.LayerNorm(channels), nn.LayerNorm(channels)
        self.attention, self.cross_attention = Attention(channels, heads), Attention(channels, heads)
        self.mlp = FeedForward(channels)
        with torch.no_grad():
            for output in (self.attention.out, self.cross_attention.out, self.mlp.out):
                output.weight.mul_(DAMPING)
                output.bias.zero_()

    def forward(self, memory: Float[Tensor, "B M D"], observation: Float[Tensor, "B N D"]) -> Float[Tensor, "B M D"]:
        normed = self.norm(memory)
        memory = memory + self.attention(normed, normed, normed)
        memory = memory + self.cross_attention(self.cross_norm(memory), observation, observation)
        return memory + self.mlp(memory)
