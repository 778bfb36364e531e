"""Layer-local external memory with least-recently-used writes: ELMUR (arXiv 2510.07151), with its defects corrected.

Corrections: slots that hold nothing are not attended to, an episode starts deterministically, anchors are measured
seconds, and what is written is normalised, so that it stays bounded however often a slot is rewritten.
"""

from typing import cast

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from robomem.errors import RobomemError
from robomem.policies.memory.attention import Attention, FeedForward, TokenReader, silence
from robomem.policies.memory.base import MemoryModule, State
from robomem.policies.tokens import Layout


class LayerMemory(MemoryModule):
    """A stack of transformer layers over the tokens of an observation, each with M memory slots of its own.

    Every observation writes one slot per layer: an empty one while there is one, then the one written longest ago, of
    which the new content becomes a part `blend`. What was written is half gone after about
    `M * log(0.5) / log(1 - blend)` observations. All layers write at the same ticks, so they share the anchors.
    """

    def __init__(
        self, layout: Layout, *, layers: int = 2, slots: int = 16, heads: int = 2, blend: float = 0.05
    ) -> None:
        """Build empty memories.

        Args:
            layout: Of the tokens to remember.
            layers: Of the stack.
            slots: M, per layer.
            heads: Of every attention.
            blend: Share of the new content in a slot that is rewritten, in (0, 1].

        Raises:
            RobomemError: a blend that is no such share.
        """
        super().__init__(layout)
        if not 0 < blend <= 1:
            raise RobomemError(f"blend={blend} is a share, above 0 and up to 1")
        self.slots, self.blend = slots, blend
        self.layers = nn.ModuleList(_Layer(self.channels, slots, heads) for _ in range(layers))

    def init(self, batch: int) -> State:
        """All slots empty."""
        weight = next(self.parameters())
        return {
            "slots": weight.new_zeros(batch, len(self.layers), self.slots, self.channels),
            "age": torch.zeros(batch, self.slots, device=weight.device),
            "writes": torch.zeros(batch, dtype=torch.long, device=weight.device),
        }

    def step(self, state: State, tokens: Tensor, dt: Tensor) -> tuple[Tensor, State]:
        """Every layer reads its memory, then writes what its tokens have become."""
        state = self.advance(state, dt)
        used = self._used(state)
        turn = self._numbers(state) == (state["writes"] % self.slots)[:, None]
        share = torch.where(used, self.blend, 1.0)[..., None]
        slots = []
        for layer, held in self._layers(state):
            tokens = layer.enrich(tokens, held, state["age"], used)
            new = layer.candidate(tokens, held, used, turn).to(held.dtype)
            slots.append(torch.where(turn[..., None], torch.lerp(held, new.expand_as(held), share), held))
        age = torch.where(turn, 0.0, state["age"])
        # It goes round from M to 2 M - 1: that says whose turn it is, and a memory that has settled returns to itself.
        writes = torch.where(state["writes"] == 2 * self.slots - 1, self.slots, state["writes"] + 1)
        return tokens, {"slots": torch.stack(slots, dim=1), "age": age, "writes": writes}

    def advance(self, state: State, dt: Tensor) -> State:
        """Time since the last write of each slot goes on."""
        return {**state, "age": torch.where(self._used(state), state["age"] + dt[:, None], 0.0)}

    def diagnostics(self, state: State, tokens: Tensor) -> dict[str, Tensor]:
        """Attention of the tokens to each slot, averaged over layers, and seconds since its write (NaN: empty)."""
        used = self._used(state)
        shares = [
            layer.mem2tok.weights(tokens, held, state["age"], used).mean(1) for layer, held in self._layers(state)
        ]
        return {"attention": torch.stack(shares).mean(0), "age": state["age"].where(used, torch.nan)}

    def _layers(self, state: State) -> "list[tuple[_Layer, Tensor]]":
        """Every layer with its slots."""
        return [
            (cast("_Layer", layer), held) for layer, held in zip(self.layers, state["slots"].unbind(1), strict=True)
        ]

    def _used(self, state: State) -> Bool[Tensor, "B M"]:
        return self._numbers(state) < state["writes"][:, None]

    def _numbers(self, state: State) -> Int[Tensor, " M"]:
        return torch.arange(self.slots, device=state["age"].device)


class _Layer(nn.Module):
    """The token track, which starts as the identity, and the memory track, which writes something from the start."""

    def __init__(self, channels: int, slots: int, heads: int) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(channels)
        self.attention = Attention(channels, heads)
        self.mem2tok = TokenReader(channels, heads)
        self.token_mlp = FeedForward(channels)
        silence(self.attention.out, self.mem2tok.attention.out, self.token_mlp.out)
        self.slot = nn.Parameter(0.02 * torch.randn(slots, channels))
        self.query_norm, self.token_norm = nn.LayerNorm(channels), nn.LayerNorm(channels)
        self.tok2mem = Attention(channels, heads)
        self.memory_mlp = FeedForward(channels)
        self.memory_norm = nn.LayerNorm(channels)

    def enrich(
        self, tokens: Float[Tensor, "B N D"], held: Float[Tensor, "B M D"], age: Tensor, used: Bool[Tensor, "B M"]
    ) -> Float[Tensor, "B N D"]:
        """Tokens attend to each other, then to the memory."""
        normed = self.norm(tokens)
        tokens = tokens + self.attention(normed, normed, normed)
        tokens = tokens + self.mem2tok(tokens, held, age, used)
        return tokens + self.token_mlp(tokens)

    def candidate(
        self,
        tokens: Float[Tensor, "B N D"],
        held: Float[Tensor, "B M D"],
        used: Bool[Tensor, "B M"],
        turn: Bool[Tensor, "B M"],
    ) -> Float[Tensor, "B 1 D"]:
        """New content of the slot whose turn it is: what it held attends to the tokens."""
        content = turn.to(held.dtype)[:, None] @ (torch.where(used[..., None], held, 0.0) + self.slot)
        normed = self.token_norm(tokens)
        content = content + self.tok2mem(self.query_norm(content), normed, normed)
        return self.memory_norm(content + self.memory_mlp(content))
