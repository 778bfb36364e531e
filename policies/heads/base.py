"""What every action head offers: an objective on a context vector."""

from jaxtyping import Float
from torch import Tensor, nn


class Head(nn.Module):
    """Learns the distribution of action chunks given a context, in normalised units."""

    def loss(
        self, context: Float[Tensor, "B C"], actions: Float[Tensor, "B H A"], weight: Float[Tensor, "B H"]
    ) -> Tensor:
        """Weighted mean loss of the chunks."""
        raise NotImplementedError

    def sample(self, context: Float[Tensor, "B C"], noise: Float[Tensor, "B H A"]) -> Float[Tensor, "B H A"]:
        """A chunk; deterministic given the standard normal noise."""
        raise NotImplementedError
