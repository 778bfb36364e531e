"""What every encoder offers, and what encoders of patches share."""

from collections.abc import Iterable, Mapping
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn

from robomem.contract import Observation
from robomem.policies.encoders.backbone import Backbone
from robomem.policies.encoders.text import HashedWords
from robomem.policies.normalise import ProprioFeatures
from robomem.policies.tokens import Layout, Percept
from robomem.spec import PolicySpec
from robomem.statistics import Statistics


class Encoder(nn.Module):
    """Turns observations into percepts; knows nothing of the past."""

    layout: Layout
    """Of the tokens it makes."""
    proprio: ProprioFeatures
    """The normalisation of proprioception in its percepts."""

    def forward(self, observation: Observation) -> Percept:
        """Perceive B observations."""
        raise NotImplementedError

    def frozen(self) -> Backbone | None:
        """The part that never learns, so that what it makes of a frame can be kept; none by default."""
        return None

    def stored(self, settings: Mapping[str, Any]) -> dict[str, Any]:
        """Settings that build this encoder again, for weights from a checkpoint, without any other file."""
        return dict(settings)


class PatchEncoder(Encoder):
    """Patches of every camera, and one token of proprioception and instruction."""

    grid: Tensor

    def __init__(
        self, *, spec: PolicySpec, statistics: Statistics, layout: Layout, towers: Iterable[nn.Module]
    ) -> None:
        """Build for the cameras and the proprioception of a specification.

        Args:
            spec: Names the cameras and the entries of proprioception.
            statistics: For the normalisation of proprioception.
            layout: Of the tokens.
            towers: What is learned of the patches of each camera.
        """
        super().__init__()
        self.cameras, self.layout = [camera.name for camera in spec.cameras], layout
        self.register_buffer("grid", layout.grid()[: layout.height * layout.width], persistent=False)
        self.towers = nn.ModuleList(towers)
        channels = layout.channels
        self.text = HashedWords(channels)
        self.proprio = ProprioFeatures(spec.proprio, statistics.proprio)
        self.state = nn.Sequential(nn.Linear(self.proprio.size, channels), nn.GELU(), nn.Linear(channels, channels))
        self.cognition_norm = nn.LayerNorm(channels)

    def forward(self, observation: Observation) -> Percept:
        """Perceive B observations."""
        seen = (self.look(name, tower, observation) for name, tower in zip(self.cameras, self.towers, strict=True))
        patches, places = zip(*seen, strict=True)
        proprio = self.proprio(observation.proprio)
        cognition = self.cognition_norm(self.state(proprio) + self.text(observation.instruction))
        return Percept(torch.cat([*patches, cognition[:, None]], dim=1), torch.cat(places, dim=1), proprio)

    def look(
        self, camera: str, tower: nn.Module, observation: Observation
    ) -> tuple[Float[Tensor, "B P D"], Float[Tensor, "B P 2"]]:
        """The patch tokens of one camera, and where in its image the thing is that each shows."""
        raise NotImplementedError


def standardise(patches: Float[Tensor, "B P D"]) -> Float[Tensor, "B P D"]:
    """Every channel to zero mean and unit variance over the patches of its image.

    Otherwise what all patches share outweighs a small object, and all tokens look alike.
    """
    centred = patches - patches.mean(1, keepdim=True)
    return centred * torch.rsqrt(centred.square().mean(1, keepdim=True) + 1e-5)
