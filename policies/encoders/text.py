"""A text encoder that needs no vocabulary file: hashed words, embedded and averaged."""

import functools
import itertools
import re
import zlib
from collections.abc import Sequence

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

BUCKETS = 1024


class HashedWords(nn.Module):
    """Instructions to one vector each: the mean embedding of their words and word pairs (order matters a little)."""

    def __init__(self, channels: int) -> None:
        """Embed into `channels` dimensions."""
        super().__init__()
        self.embedding = nn.EmbeddingBag(BUCKETS, channels, mode="mean")

    def forward(self, instructions: Sequence[str]) -> Float[Tensor, "B D"]:
        """Encode B instructions; equal ones are encoded once."""
        unique = sorted(set(instructions))
        buckets = [_buckets(text) for text in unique]
        device = self.embedding.weight.device
        starts = torch.tensor([0, *map(len, buckets[:-1])], device=device).cumsum(0)
        encoded = self.embedding(torch.cat(buckets).to(device), starts)
        index = {text: i for i, text in enumerate(unique)}
        return encoded[torch.tensor([index[text] for text in instructions], device=device)]


@functools.lru_cache(maxsize=4096)
def _buckets(text: str) -> Int[Tensor, " words"]:
    words = re.findall(r"[\w']+", text.lower()) or [""]
    grams = words + [" ".join(pair) for pair in itertools.pairwise(words)]
    return torch.tensor([zlib.crc32(gram.encode()) % BUCKETS for gram in grams])
