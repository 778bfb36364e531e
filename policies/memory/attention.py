"""Parts of memories that hold tokens: pooling an observation, reading what is held, and the layer that follows."""

import math

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn
from torch.nn import functional

from robomem.policies.memory.reader import AGES, check_heads, encode_age
from robomem.policies.tokens import Layout


class TokenPool(nn.Module):
    """A few tokens for an observation: what each query looks at and where in the image that is, and cognition last."""

    grid: Tensor

    def __init__(self, layout: Layout, queries: int) -> None:
        """Pool the patches of a layout by learned queries."""
        super().__init__()
        self.layout = layout
        self.queries = nn.Parameter(torch.randn(queries, layout.channels) / layout.channels**0.5)
        self.place = nn.Linear(2, layout.channels)
        self.register_buffer("grid", layout.grid(), persistent=False)

    def forward(self, tokens: Float[Tensor, "*B N D"]) -> Float[Tensor, "*B K D"]:
        """K - 1 pooled tokens and the cognition token."""
        patches = self.layout.perceptual(tokens)
        shares = (patches @ self.queries.T).softmax(-2).transpose(-1, -2)
        seen = shares @ patches + self.place(shares @ self.grid)
        return torch.cat([seen, self.layout.cognitive(tokens)[..., None, :]], dim=-2)


class Attention(nn.Module):
    """Multi-head attention that rounds alike in training and in acting, where `nn.MultiheadAttention` does not."""

    def __init__(self, channels: int, heads: int) -> None:
        """Attend from and to tokens of `channels` channels."""
        super().__init__()
        check_heads(channels, heads)
        self.heads = heads
        self.query, self.value, self.out = (nn.Linear(channels, channels) for _ in range(3))
        self.key = nn.Linear(channels, channels, bias=False)  # a bias would be the same for all keys

    def forward(
        self,
        queries: Float[Tensor, "B Q D"],
        keys: Float[Tensor, "B M D"],
        values: Float[Tensor, "B M D"],
        used: Bool[Tensor, "B M"] | None = None,
    ) -> Float[Tensor, "B Q D"]:
        """What the tokens, or those of them that are used, say to each query."""
        query, key, value = (
            self._split(self.query(queries)),
            self._split(self.key(keys)),
            self._split(self.value(values)),
        )
        mask = None if used is None else used[:, None, None]
        read = functional.scaled_dot_product_attention(query, key, value, attn_mask=mask)
        return self.out(read.transpose(1, 2).flatten(2))

    def weights(self, queries: Tensor, keys: Tensor, used: Tensor) -> Float[Tensor, "B Q M"]:
        """Attention of each query to each token, averaged over heads."""
        query, key = self._split(self.query(queries)), self._split(self.key(keys))
        logits = query @ key.transpose(-1, -2) / key.shape[-1] ** 0.5
        return logits.masked_fill(~used[:, None, None], -math.inf).softmax(-1).mean(1)

    def _split(self, tokens: Float[Tensor, "B M D"]) -> Float[Tensor, "B heads M size"]:
        return tokens.unflatten(-1, (self.heads, -1)).transpose(1, 2)


class TokenReader(nn.Module):
    """Cross-attention that learns what to compare, where `EntryReader` compares what looks alike.

    A learned sink key and value catch the attention that nothing remembered deserves (Sink-KV of ReLIC, arXiv
    2410.02751); unused tokens get none at all. Ages in seconds are added to the keys alone.
    """

    def __init__(self, channels: int, heads: int = 2) -> None:
        """Read tokens of `channels` channels."""
        super().__init__()
        self.norm = nn.LayerNorm(channels)
        self.age = nn.Linear(2 * AGES, channels)
        self.sink_key = nn.Parameter(torch.randn(channels))
        self.sink_value = nn.Parameter(torch.zeros(channels))
        self.attention = Attention(channels, heads)

    def forward(
        self,
        queries: Float[Tensor, "B Q D"],
        tokens: Float[Tensor, "B M D"],
        age: Float[Tensor, "B M"],
        used: Bool[Tensor, "B M"],
    ) -> Float[Tensor, "B Q D"]:
        """What the used tokens say to each query."""
        values = _prepend(self.sink_value, tokens)
        return self.attention(self.norm(queries), self._keys(tokens, age), values, _usable(used))

    def weights(self, queries: Tensor, tokens: Tensor, age: Tensor, used: Tensor) -> Float[Tensor, "B Q M"]:
        """Attention of each query to each token, averaged over heads; the rest went to the sink."""
        return self.attention.weights(self.norm(queries), self._keys(tokens, age), _usable(used))[..., 1:]

    def _keys(self, tokens: Tensor, age: Tensor) -> Tensor:
        return _prepend(self.sink_key, tokens + self.age(encode_age(age)))


def _prepend(sink: Float[Tensor, " D"], tokens: Float[Tensor, "B M D"]) -> Float[Tensor, "B M+1 D"]:
    return torch.cat([sink.expand(len(tokens), 1, -1), tokens], dim=1)


def _usable(used: Bool[Tensor, "B M"]) -> Bool[Tensor, "B M+1"]:
    """The sink always is."""
    return functional.pad(used, (1, 0), value=True)


class FeedForward(nn.Module):
    """The layer of a transformer that follows an attention, without its residual."""

    def __init__(self, channels: int) -> None:
        """Build for tokens of `channels` channels."""
        super().__init__()
        self.norm = nn.LayerNorm(channels)
        self.enter = nn.Linear(channels, 2 * channels)
        self.out = nn.Linear(2 * channels, channels)

    def forward(self, tokens: Float[Tensor, "*B N D"]) -> Float[Tensor, "*B N D"]:
        """What to add to the tokens."""
        return self.out(functional.gelu(self.enter(self.norm(tokens))))


def silence(*outputs: nn.Linear) -> None:
    """Start output projections at zero, so that a residual around them begins as the identity."""
    for output in outputs:
        nn.init.zeros_(output.weight)
        nn.init.zeros_(output.bias)
