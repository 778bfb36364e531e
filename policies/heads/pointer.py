"""From tokens to one context vector, by pointing at patches."""

from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor, nn

from robomem.policies.tokens import Layout


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

    Each patch votes for the final place (position entries of proprioception), known in hindsight; the votes form a mixture whose
    weights are the pointer. Its likelihood keeps several candidates apart where a regression would average them, and
    choosing between them with the help of memory is worth a nat at once. Like the heatmaps of SAM2Act
    (arXiv 2501.18564), but without camera geometry.
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
        log_share = (self.choose(chosen).squeeze(-1).float() + salience).log_softmax(-1)
        pointed = torch.einsum("bp,bpf->bf", log_share.exp(), torch.cat([chosen.float(), outcome], dim=-1))
        return Pointing(torch.cat([pooled, pointed, cognition], dim=-1), log_share, outcome, log_std.clamp(-2, 0.5))

    def negative_log_likelihood(self, pointing: Pointing, outcome: Float[Tensor, "B F"]) -> Float[Tensor, " B"]:
        """Of the true final place under the mixture of votes, in nats."""
        error = (outcome[:, None] - pointing.outcome) / pointing.log_std.exp()
        votes = -(0.5 * error.square() + pointing.log_std).sum(-1)
        return -torch.logsumexp(pointing.log_share + votes, dim=-1)


def _grid(layout: Layout) -> Float[Tensor, "P 2"]:
    """Image coordinates in [-1, 1] of every patch."""
    rows, columns = torch.linspace(-1, 1, layout.height), torch.linspace(-1, 1, layout.width)
    return torch.cartesian_prod(rows, columns).repeat(layout.cameras, 1)
