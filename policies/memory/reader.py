"""Cross-attention from working tokens to remembered entries, with a place to look when nothing fits."""

import math
from typing import NamedTuple

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn
from torch.nn import functional

from robomem.errors import RobomemError

AGES = 8
"""Frequencies that encode an age, from 0.5 to 50 rad/s."""


class Entries(NamedTuple):
    """Remembered tokens of M observations or merged groups of them."""

    tokens: Float[Tensor, "B M K D"]
    age: Float[Tensor, "B M"]
    """Seconds."""
    used: Bool[Tensor, "B M"]


class EntryReader(nn.Module):
    """Multi-head attention by cosine similarity, with a learned threshold.

    Query and key projections start equal, so similarity of content means something from the first step. A sink key at a
    learned cosine catches the attention that no entry deserves (Sink-KV of ReLIC, arXiv 2410.02751); the share it
    catches is returned as novelty: what is here now and has not been seen before. Ages in seconds are added to the keys
    alone. Only the output projection starts at zero.
    """

    def __init__(self, channels: int, tokens: int, heads: int = 2, appearance: int = 0) -> None:
        """Read entries of K = `tokens` tokens with queries of as many.

        Args:
            channels: D.
            tokens: K.
            heads: Of the attention.
            appearance: Last channels, which the first head compares alone to begin with: learned features soon agree on
                what is an object and no longer tell one from another.

        Raises:
            RobomemError: the channels cannot be shared out among the heads.
        """
        super().__init__()
        check_heads(channels, heads)
        self.heads = heads
        self.query = nn.Linear(channels, channels, bias=False)
        self.log_scale = nn.Parameter(torch.full((heads,), 3.7))
        self.threshold = nn.Parameter(torch.full((heads,), 0.93))
        if appearance:
            with torch.no_grad():
                own = self.query.weight[: channels // heads]
                own[:, :-appearance] = 0
                own[:, -appearance:] = nn.init.orthogonal_(torch.empty(len(own), appearance))
                self.log_scale[0], self.threshold[0] = 4.8, 0.985  # raw colours repeat almost exactly
        self.key = nn.Linear(channels, channels, bias=False)
        self.key.load_state_dict(self.query.state_dict())
        self.value = nn.Linear(channels, channels)
        self.age = nn.Linear(2 * AGES, channels)
        nn.init.normal_(self.age.weight, std=0.01)
        self.query_place = nn.Parameter(0.02 * torch.randn(tokens, channels))
        self.key_place = nn.Parameter(0.02 * torch.randn(tokens, channels))
        self.sink_value = nn.Parameter(torch.zeros(heads, channels // heads))
        self.out = nn.Linear(channels, channels)
        nn.init.zeros_(self.out.weight)
        nn.init.zeros_(self.out.bias)

    def forward(
        self, queries: Float[Tensor, "B Q D"], entries: Entries
    ) -> tuple[Float[Tensor, "B Q D"], Float[Tensor, "B Q heads"]]:
        """What the entries say to each query, and the novelty of each query in [0, 1]."""
        query, key, value, allowed = self._project(queries, entries)
        read = functional.scaled_dot_product_attention(query, key, value, attn_mask=allowed, scale=1.0).transpose(1, 2)
        size = queries.shape[-1] // self.heads
        return self.out(read[..., :size].flatten(2)), read[..., size]

    def weights(self, queries: Float[Tensor, "B Q D"], entries: Entries) -> Float[Tensor, "B Q M"]:
        """Attention of each query to each entry, averaged over heads; the rest went to the sink."""
        query, key, _, allowed = self._project(queries, entries)
        logits = (query @ key.transpose(-1, -2)).masked_fill(~allowed, -math.inf)
        shares = logits.softmax(-1).mean(1)[..., 1:]
        return shares.unflatten(-1, entries.tokens.shape[1:3]).sum(-1)

    def _project(self, queries: Tensor, entries: Entries) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Queries, keys and values (B, heads, ., .) with the sink first, and which keys are allowed."""
        batch, used = len(queries), entries.used
        keys = self.key(entries.tokens + self.age(encode_age(entries.age))[:, :, None]) + self.key_place
        query = self._split(self.query(queries) + self.query_place[-queries.shape[1] :])
        key = self._split(keys.flatten(1, 2))
        value = self._split(self.value(entries.tokens).flatten(1, 2))
        scale = self.log_scale.exp()[:, None, None].expand(-1, query.shape[2], 1)
        query = torch.cat([functional.normalize(query, dim=-1) * scale, scale.expand(batch, -1, -1, -1)], dim=-1)
        key = functional.pad(functional.normalize(key, dim=-1), (0, 1, 1, 0))
        key = key + functional.pad(self.threshold[:, None, None], (key.shape[-1] - 1, 0, 0, key.shape[-2] - 1))
        sink = self.sink_value[:, None].expand(batch, -1, -1, -1)
        value = functional.pad(torch.cat([sink, value], dim=2), (0, 1))
        novelty = torch.zeros_like(value[0, 0])
        novelty[0, -1] = 1
        allowed = functional.pad(used.repeat_interleave(entries.tokens.shape[2], dim=1), (1, 0), value=True)
        return query, key, value + novelty, allowed[:, None, None].expand(-1, 1, query.shape[2], -1)

    def _split(self, tokens: Float[Tensor, "B K D"]) -> Float[Tensor, "B heads K size"]:
        return tokens.unflatten(-1, (self.heads, -1)).transpose(1, 2)


def check_heads(channels: int, heads: int) -> None:
    """Raise `RobomemError` unless every head gets as many channels."""
    if channels % heads:
        raise RobomemError(f"heads={heads} cannot share {channels} channels equally; use a divisor of {channels}")


def encode_age(age: Float[Tensor, "*B"]) -> Float[Tensor, "*B F"]:
    """Sine and cosine of an age in seconds at `AGES` frequencies; float32."""
    frequencies = torch.logspace(math.log10(0.5), math.log10(50), AGES, device=age.device)
    angles = age.float()[..., None] * frequencies
    return torch.cat([angles.sin(), angles.cos()], dim=-1)
