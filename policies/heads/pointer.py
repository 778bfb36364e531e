"""From tokens to one context vector, by pointing at patches."""

from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor, nn

from robomem.policies.tokens import Layout, Percept

SPREAD = 0.5
"""Standard deviation of a vote. Wider votes would settle on the mean of the candidates, where symmetric ones cancel."""

GAIN = 30.0
"""An optimizer such as Adam moves a weight by the learning rate at each step; this lets geometry be learned sooner."""


class Pointing(NamedTuple):
    """Where in the images the policy looks, and what that says."""

    context: Float[Tensor, "B C"]
    """Everything the action head sees."""
    log_share: Float[Tensor, "B P"]
    """Log-probability of each patch to be where the demonstrator goes."""
    outcome: Float[Tensor, "B P F"]
    """What each patch takes the demonstrator's final place (normalised) to be, were it the right one."""
    goal: Float[Tensor, "B F"]
    """What all patches together take it to be."""


class Pointer(nn.Module):
    """Spatial softmax pooling by learned queries, plus a pointer that is trained to the demonstrator's goal.

    Each patch votes for where the episode ends (the position entries of proprioception), known in hindsight, and is
    weighted by how much the pointer looks at it. The pointer starts from what stands out, so that a vote is learned
    from the patch that memory singles out instead of from the mean over symmetric candidates. Like the heatmaps of
    SAM2Act (arXiv 2501.18564), with camera geometry learned.

    It points at patches of the first camera alone, which should stand still: what a camera on the wrist sees always,
    the gripper, tells where the arm is and would be pointed at instead of a goal.
    """

    def __init__(self, layout: Layout, features: int, proprio: int, queries: int = 8, hidden: int = 64) -> None:
        """Point at the patches of a layout.

        Args:
            layout: Of the working tokens.
            features: F, entries of a place.
            proprio: Features of proprioception.
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
        self.position = nn.Linear(2, hidden)
        self.geometry = nn.Linear(3, features, bias=False)
        self.vote = nn.Linear(hidden, features)
        self.state = nn.Linear(channels, hidden)
        self.choose = nn.Linear(hidden, 1, bias=False)
        self.salience = nn.Parameter(torch.tensor(4.0))
        for linear in (self.vote, self.choose, self.geometry):
            nn.init.zeros_(linear.weight)
        self.context_size = queries * (32 + 2) + hidden + 2 * features + channels + proprio

    def forward(self, percept: Percept) -> Pointing:
        """Point, and pool."""
        tokens, places, proprio = percept
        patches, cognition = self.layout.perceptual(tokens), self.layout.cognitive(tokens)
        mixed = self.norm(patches + self.mix(patches))
        still = slice(self.layout.patches // self.layout.cameras)
        content = self.content(mixed[:, still]) + self.position(places[:, still])
        outcome = self._votes(content, places[:, still])
        chosen = nn.functional.gelu(content + self.state(cognition)[:, None])
        log_share = self._log_share(chosen, patches[:, still])
        pointed = torch.einsum("bp,bpf->bf", log_share.exp(), torch.cat([chosen.float(), outcome], dim=-1))
        goal = pointed[:, chosen.shape[-1] :]
        gap = goal - proprio[:, : goal.shape[-1]]
        context = torch.cat([self._pool(mixed, places), pointed, gap, cognition, proprio], dim=-1)
        return Pointing(context, log_share, outcome, goal)

    def _pool(self, mixed: Float[Tensor, "B P D"], places: Float[Tensor, "B P 2"]) -> Float[Tensor, "B Q"]:
        """What and where each query finds."""
        shares = (self.queries @ self.key(mixed).transpose(1, 2)).softmax(-1)
        return torch.cat([shares @ self.value(mixed), shares @ places], dim=-1).flatten(1)

    def _votes(self, content: Float[Tensor, "B P hidden"], places: Float[Tensor, "B P 2"]) -> Float[Tensor, "B P F"]:
        """Outcome of each patch.

        For a camera that stands still, image and arm coordinates are nearly an affine map apart. A vote must not know
        where the arm is: all patches would agree on where it is heading, and point at nothing.
        """
        affine = self.geometry(GAIN * nn.functional.pad(places, (0, 1), value=1.0))
        return (affine + self.vote(nn.functional.gelu(content))).float()

    def _log_share(self, chosen: Float[Tensor, "B P hidden"], patches: Float[Tensor, "B P D"]) -> Float[Tensor, "B P"]:
        """How much each patch is looked at. Tokens have unit mean energy, so what stands out is from the start."""
        salience = self.salience * patches.float().square().mean(-1).clamp(1e-3, 2).log()
        choice = 3 * self.choose(chosen).squeeze(-1).float().tanh()
        return (choice + salience).log_softmax(-1)

    def error(self, pointing: Pointing, outcome: Float[Tensor, "B F"]) -> Float[Tensor, " B"]:
        """Of where the episode ended: squared, of each vote, weighted by the pointer; and L1, of all votes together.

        The likelihood of their mixture instead would reward pointing everywhere, and does: it forgets the memory.
        """
        votes = ((outcome[:, None] - pointing.outcome) / SPREAD).square().sum(-1) / 2
        together = (outcome - pointing.goal).abs().sum(-1)
        return (pointing.log_share.exp() * votes).sum(-1) + together
