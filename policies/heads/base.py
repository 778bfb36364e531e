"""What every action head offers: an objective, learned by a trunk, on a context vector."""

from typing import NamedTuple

from jaxtyping import Float
from torch import Tensor, nn

from robomem.contract import Prefix
from robomem.policies.heads.trunk import MakeTrunk


class Sample(NamedTuple):
    """A chunk and what it took."""

    actions: Float[Tensor, "B H A"]
    """In normalised units."""
    iterations: Float[Tensor, "B E"]
    """Iterations of the trunk in each of its E evaluations; 1 for a trunk of fixed depth."""


class Head(nn.Module):
    """Learns the distribution of action chunks given a context, in normalised units.

    The objective is the subclass, the network is the trunk; any objective goes with any trunk.
    """

    def __init__(self, *, inputs: int, context: int, horizon: int, action: int, trunk: MakeTrunk) -> None:
        """Build the trunk.

        Args:
            inputs: Entries that the trunk is given besides the context.
            context: C, size of the context vector.
            horizon: H, actions of a chunk.
            action: A, entries of an action.
            trunk: Makes the network.
        """
        super().__init__()
        self.shape = (horizon, action)
        self.trunk = trunk(inputs=inputs, context=context, outputs=horizon * action)

    def loss(
        self, context: Float[Tensor, "B C"], actions: Float[Tensor, "B H A"], weight: Float[Tensor, "B H"]
    ) -> Tensor:
        """Weighted mean loss of the chunks."""
        raise NotImplementedError

    def sample(
        self, context: Float[Tensor, "B C"], noise: Float[Tensor, "B H A"], prefix: Prefix | None = None
    ) -> Sample:
        """A chunk; deterministic given the standard normal noise.

        Args:
            context: What the chunk is for.
            noise: What it is made from.
            prefix: Actions (normalised) that it has to go on from.
        """
        raise NotImplementedError


def weighted_mean(error: Float[Tensor, "B H"], weight: Float[Tensor, "B H"]) -> Tensor:
    """Mean of the errors of single actions."""
    return (error * weight).sum() / weight.sum().clamp_min(1)
