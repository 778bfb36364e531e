"""Working tokens: what an encoder hands to the memory and the memory to the head."""

from dataclasses import dataclass
from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor


@dataclass(frozen=True)
class Layout:
    """How the N tokens of one observation are ordered: patches camera by camera, row by row, then one cognition token.

    Legend for shapes: B rows, T ticks, N tokens, D channels, S long-term entries.
    """

    cameras: int
    height: int
    """Patch rows of one camera."""
    width: int
    """Patch columns of one camera."""
    channels: int
    """D."""
    appearance: int = 0
    """Last channels of a patch that hold raw colour, by which things can be told apart before anything is learned."""

    @property
    def patches(self) -> int:
        """Patch tokens of all cameras."""
        return self.cameras * self.height * self.width

    @property
    def tokens(self) -> int:
        """N: patches and the cognition token."""
        return self.patches + 1

    def grid(self) -> Float[Tensor, "P 2"]:
        """Image coordinates (down, right) of every patch's middle; the image spans [-1, 1]."""
        rows, columns = (torch.arange(1 - count, count, 2) / count for count in (self.height, self.width))
        return torch.cartesian_prod(rows, columns).repeat(self.cameras, 1)

    def perceptual(self, tokens: Float[Tensor, "*B N D"]) -> Float[Tensor, "*B P D"]:
        """The patch tokens (perception)."""
        return tokens[..., :-1, :]

    def cognitive(self, tokens: Float[Tensor, "*B N D"]) -> Float[Tensor, "*B D"]:
        """The cognition token (proprioception and instruction)."""
        return tokens[..., -1, :]


class Percept(NamedTuple):
    """What is perceived of one observation; a memory enriches the tokens, never what was measured."""

    tokens: Float[Tensor, "*B N D"]
    """Ordered as the layout says."""
    places: Float[Tensor, "*B P 2"]
    """Where in its image the thing is that a patch shows: (down, right), the image spans [-1, 1]."""
    proprio: Float[Tensor, "*B F"]
    """Features of proprioception, positions first."""
