"""L1 regression of the whole chunk (the head of OpenVLA-OFT, arXiv 2502.19645)."""

from jaxtyping import Float
from torch import Tensor

from robomem.contract import Prefix
from robomem.policies.heads.base import Head, Sample, weighted_mean
from robomem.policies.heads.mlp import ConditionalMLP
from robomem.policies.heads.trunk import MakeTrunk


class Regression(Head):
    """Context to action chunk in one pass; the noise is not used, and a prefix is copied."""

    def __init__(self, *, context: int, horizon: int, action: int, trunk: MakeTrunk = ConditionalMLP) -> None:
        """Build for chunks of `horizon` actions of `action` entries."""
        super().__init__(inputs=0, context=context, horizon=horizon, action=action, trunk=trunk)

    def loss(
        self, context: Float[Tensor, "B C"], actions: Float[Tensor, "B H A"], weight: Float[Tensor, "B H"]
    ) -> Tensor:
        """Weighted mean absolute error."""
        chunk = self.trunk(context.new_zeros(len(context), 1, 0), self.trunk.encode(context))
        return weighted_mean((chunk.view_as(actions) - actions).abs().mean(-1), weight)

    def sample(
        self, context: Float[Tensor, "B C"], noise: Float[Tensor, "B H A"], prefix: Prefix | None = None
    ) -> Sample:
        """The chunk."""
        outputs, iterations = self.trunk.solve(context.new_zeros(len(context), 1, 0), self.trunk.encode(context))
        chunk = outputs.view_as(noise)
        return Sample(prefix.pull(chunk) if prefix else chunk, iterations)
