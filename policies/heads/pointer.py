"""From tokens to one context vector, by pointing at patches."""

from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor, nn

from robomem.policies.tokens import Layout

LOG_STD = (-2.0, -0.7)
"""Bounds of a vote's spread. Wide votes would all settle on the mean of the candidates, where symmetric ones cancel."""


class Pointing(NamedTuple):
    """Where in the images the policy looks, and what that says."""

    context: Float[Tensor, "B C"]
    """Everything the action head sees."""
    log_share: Float[Tensor, "B P"]
    """Log-probability of each patch to be where the demonstrator goes."""
    outcome: Float[Tensor, "B P F"]
    """What each patch takes the demonstrator's final place (normalised) to be, were it the right one."""
    log_std: Float[Tensor, "B P F"]
    """How sure each patch is of that: an object knows better than the table around it."""


class Pointer(nn.Module):
    """Spatial softmax pooling by learned queries, plus a pointer that is trained to the demonstrator's goal.

    Each patch votes for where the episode ends (the position entries of proprioception), known in hindsight, and is
    weighted by how much the pointer looks at it. The pointer starts from what stands out, so that a vote is learned
    from the patch that memory singles out instead of from the mean over symmetric candidates. Like the heatmaps of
    SAM2Act (arXiv 2501.18564), but without camera geometry.
    """

    def __init__(self, layout: Layout, features: int, queries: int = 8, hidden: int = 64) -> None:
        """Point at the patches of a layout.

        Args:
            layout: Of the working tokens.
            features: F, entries of a place.
            queries: Learned pooling queries.
            hidden: Width of the votes.
        """
        super().__init__()
        self.layout = layout
        channels = layout.channels
        self.mix = nn.Sequential(
            nn.LayerNorm(channels), nn.Linear(channels, channels), nn.GELU(), nn.Linear(channels, channels)
        )
        self.norm = nn.LayerNorm(channels)
        self.queries = nn.Parameter(0.3 * torch.randn(queries, channels))
        self.key = nn.Linear(channels, channels)
        self.value = nn.Linear(channels, 32)
        self.content = nn.Linear(channels, hidden)
        self.state = nn.Linear(channels, hidden)
        self.position = nn.Linear(2, hidden)
        self.camera = nn.Parameter(torch.zeros(layout.cameras, hidden))
        self.vote = nn.Linear(hidden, 2 * features)
        self.choose = nn.Linear(hidden, 1)
        nn.init.zeros_(self.choose.weight)
        self.salience = nn.Parameter(torch.tensor(4.0))
        self.register_buffer("grid", _grid(layout), persistent=False)
        self.context_size = queries * (32 + 2) + hidden + features + channels

    def forward(self, tokens: Float[Tensor, "B N D"]) -> Pointing:
        """Point, and pool."""
        patches, cognition = self.layout.perceptual(tokens), self.layout.cognitive(tokens)
        mixed = self.norm(patches + self.mix(patches))
        shares = (self.queries @ self.key(mixed).transpose(1, 2)).softmax(-1)
        pooled = torch.cat([shares @ self.value(mixed), shares @ self.grid], dim=-1).flatten(1)
        camera = self.camera.repeat_interleave(self.layout.patches // self.layout.cameras, dim=0)
        place = self.position(self.grid) + camera
        content = self.content(mixed) + place
        # A vote must not know where the arm is: all patches would agree on where it is heading, and point at nothing.
        outcome, log_std = self.vote(nn.functional.gelu(content)).float().chunk(2, dim=-1)
        chosen = nn.functional.gelu(content + self.state(cognition)[:, None])
        # Tokens have unit mean energy, so that what stands out is looked at before anything is learned.
        salience = self.salience * patches.float().square().mean(-1).clamp(1e-3, 2).log()
        log_share = (3 * self.choose(chosen).squeeze(-1).float().tanh() + salience).log_softmax(-1)
        pointed = torch.einsum("bp,bpf->bf", log_share.exp(), torch.cat([chosen.float(), outcome], dim=-1))
        return Pointing(torch.cat([pooled, pointed, cognition], dim=-1), log_share, outcome, log_std.clamp(*LOG_STD))

    def surprise(self, pointing: Pointing, outcome: Float[Tensor, "B F"]) -> Float[Tensor, " B"]:
        """Of where the episode ended under each vote, averaged with the weights of the pointer, in nats.

        The likelihood of the mixture instead would reward pointing everywhere, and does: it forgets the memory.
        """
        error = (outcome[:, None] - pointing.outcome) / pointing.log_std.exp()
        votes = -(0.5 * error.square() + pointing.log_std).sum(-1)
        return -(pointing.log_share.exp() * votes).sum(-1)


def _grid(layout: Layout) -> Float[Tensor, "P 2"]:
    """Image coordinates in [-1, 1] of every patch."""
    rows, columns = torch.linspace(-1, 1, layout.height), torch.linspace(-1, 1, layout.width)
    return torch.cartesian_prod(rows, columns).repeat(layout.cameras, 1)
