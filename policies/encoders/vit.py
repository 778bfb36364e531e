"""The `vit` encoder: patches of a frozen vision transformer, and a projection that learns."""

from collections.abc import Mapping
from typing import Any

from jaxtyping import Float
from torch import Tensor, nn

from robomem.contract import Observation
from robomem.policies.encoders.backbone import Backbone
from robomem.policies.encoders.base import PatchEncoder, standardise
from robomem.policies.tokens import Layout
from robomem.spec import PolicySpec
from robomem.statistics import Statistics


class VisionTransformer(PatchEncoder):
    """Features of every camera, projected, and one token of proprioception and instruction.

    An observation that carries `features` is not encoded again (see `Observation.features`).
    """

    def __init__(self, *, spec: PolicySpec, statistics: Statistics, backbone: Backbone, channels: int = 64) -> None:
        """Build for the cameras and the proprioception of a specification.

        Args:
            spec: Cameras of any sizes.
            statistics: For the normalisation of proprioception.
            backbone: The frozen part.
            channels: D of the tokens.
        """
        layout = Layout(len(spec.cameras), backbone.grid, backbone.grid, channels)
        features = backbone.shape[1]
        towers = (nn.Linear(features, channels, bias=False) for _ in spec.cameras)
        super().__init__(spec=spec, statistics=statistics, layout=layout, towers=towers)
        self.backbone = backbone

    def look(
        self, camera: str, tower: nn.Module, observation: Observation
    ) -> tuple[Float[Tensor, "B P D"], Float[Tensor, "B P 2"]]:
        """Projected features, each in the middle of its cell."""
        kept = observation.features.get(camera)
        features = self.backbone(observation.images[camera]) if kept is None else kept.float()
        return standardise(tower(features)), self.grid.expand(len(features), -1, -1)

    def frozen(self) -> Backbone:
        """The backbone."""
        return self.backbone

    def stored(self, settings: Mapping[str, Any]) -> dict[str, Any]:
        """With the architecture of the backbone in place of the files it came from."""
        return {**settings, "backbone": {**settings["backbone"], **self.backbone.settings}}
