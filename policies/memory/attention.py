"""Parts of memories that hold tokens: pooling an observation, reading what is held, and the layer that follows."""

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from robomem.policies.memory.reader import AGES, encode_age
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
        self.attention = nn.MultiheadAttention(channels, heads, add_bias_kv=True, batch_first=True)

    def forward(
        self,
        queries: Float[Tensor, "B Q D"],
        tokens: Float[Tensor, "B M D"],
        age: Float[Tensor, "B M"],
        used: Bool[Tensor, "B M"],
    ) -> Float[Tensor, "B Q D"]:
        """What the used tokens say to each query."""
        keys = tokens + self.age(encode_age(age))
        return self.attention(self.norm(queries), keys, tokens, key_padding_mask=~used, need_weights=False)[0]

    def weights(self, queries: Tensor, tokens: Tensor, age: Tensor, used: Tensor) -> Float[Tensor, "B Q M"]:
        """Attention of each query to each token, averaged over heads; the rest went to the sink."""
        keys = tokens + self.age(encode_age(age))
        return self.attention(self.norm(queries), keys, tokens, key_padding_mask=~used)[1][..., :-1]


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
        return self.out(nn.functional.gelu(self.enter(self.norm(tokens))))


def silence(*outputs: nn.Linear) -> None:
    """Start output projections at zero, so that a residual around them begins as the identity."""
    for output in outputs:
        nn.init.zeros_(output.weight)
        nn.init.zeros_(output.bias)
