"""L1 regression of the whole chunk (the head of OpenVLA-OFT, arXiv 2502.19645)."""

from jaxtyping import Float
from torch import Tensor

from robomem.policies.heads.base import Head
from robomem.policies.heads.trunk import ConditionalMLP


class Regression(Head):
    """Context to action chunk in one pass; the noise is not used."""

    def __init__(self, *, context: int, horizon: int, action: int, width: int = 256, depth: int = 2) -> None:
        """Build for chunks of `horizon` actions of `action` entries."""
        super().__init__()
        self.shape = (horizon, action)
        self.trunk = ConditionalMLP(0, context, horizon * action, width, depth)

    def loss(
        self, context: Float[Tensor, "B C"], actions: Float[Tensor, "B H A"], weight: Float[Tensor, "B H"]
    ) -> Tensor:
        """Weighted mean absolute error."""
        error = (self.sample(context, actions) - actions).abs().mean(-1)
        return (error * weight).sum() / weight.sum().clamp_min(1)

    def sample(self, context: Float[Tensor, "B C"], noise: Float[Tensor, "B H A"]) -> Float[Tensor, "B H A"]:
        """The chunk."""
        del noise
        return self.trunk(None, context).unflatten(-1, self.shape)
