"""How what a memory reads enters the working tokens: one choice, the same for every module that has read tokens.

A module takes the class, or a partial of it, and calls it with its layout:

    integrator: {_target_: robomem.policies.memory.integrators.ContextTokens, _partial_: true}
"""

from collections.abc import Callable

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional

from robomem.policies.tokens import Layout


class Integrator(nn.Module):
    """Working tokens attend to read tokens; subclasses say what becomes of the answer.

    Only the value projection, which is also the output, starts at zero: tokens pass unchanged at first, and every
    weight has a gradient from the second optimizer step on. A read token of zeros says nothing, and each head may also
    attend to nothing (Sink-KV of ReLIC, arXiv 2410.02751): one read token is enough for the attention to be learned.
    """

    answers = 1
    """Vectors of D channels per working token."""

    def __init__(self, layout: Layout, *, heads: int = 2) -> None:
        """Integrate into tokens of a layout with `heads` attention heads, each of the tokens' full width."""
        super().__init__()
        self.heads, self.channels = heads, layout.channels
        self.key = nn.Linear(self.channels, heads * self.channels, bias=False)
        self.value = nn.Linear(self.channels, heads * self.answers * self.channels, bias=False)
        nn.init.zeros_(self.value.weight)

    def forward(self, tokens: Float[Tensor, "*B N D"], read: Float[Tensor, "*B R D"]) -> Float[Tensor, "*B N D"]:
        """The working tokens, enriched by the read ones."""
        raise NotImplementedError

    def ask(self, tokens: Float[Tensor, "*B N D"], read: Float[Tensor, "*B R D"]) -> Float[Tensor, "*B N E"]:
        """What the read tokens answer to each working token; E = answers * D.

        The query projection is folded into that of the keys, which are few.
        """
        keys = self.key(read).unflatten(-1, (self.heads, -1)).flatten(-3, -2)
        values = self.value(read).unflatten(-1, (self.heads, -1)).flatten(-3, -2)
        logits = (tokens @ keys.transpose(-1, -2) / self.channels**0.5).unflatten(-1, (-1, self.heads))
        shares = functional.pad(logits, (0, 0, 1, 0)).softmax(-2)[..., 1:, :]
        return shares.flatten(-2) @ values


class ContextTokens(Integrator):
    """Cross-attention with a residual: what is remembered is added to what is seen."""

    def forward(self, tokens: Float[Tensor, "*B N D"], read: Float[Tensor, "*B R D"]) -> Float[Tensor, "*B N D"]:
        """Add the answers."""
        return tokens + self.ask(tokens, read)


class AdaptiveNorm(Integrator):
    """Scale and shift of the normalised tokens by what each reads (the modulation of RoboMME, arXiv 2603.04639)."""

    answers = 2

    def forward(self, tokens: Float[Tensor, "*B N D"], read: Float[Tensor, "*B R D"]) -> Float[Tensor, "*B N D"]:
        """Modulate; the tokens themselves are kept, so that nothing changes before anything is learned."""
        scale, shift = self.ask(tokens, read).chunk(2, dim=-1)
        return tokens + scale * functional.layer_norm(tokens, tokens.shape[-1:]) + shift


class ScratchpadOffset(Integrator):
    """An offset of the cognition token alone: patches stay what was seen."""

    def forward(self, tokens: Float[Tensor, "*B N D"], read: Float[Tensor, "*B R D"]) -> Float[Tensor, "*B N D"]:
        """Add the answer to the last token."""
        last = tokens[..., -1:, :]
        return torch.cat([tokens[..., :-1, :], last + self.ask(last, read)], dim=-2)


MakeIntegrator = Callable[[Layout], Integrator]
"""An integrator's class, or a partial of it."""
