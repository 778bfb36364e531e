"""What every encoder offers."""

from torch import nn

from robomem.contract import Observation
from robomem.policies.normalise import ProprioFeatures
from robomem.policies.tokens import Layout, Percept


class Encoder(nn.Module):
    """Turns observations into percepts; knows nothing of the past."""

    layout: Layout
    """Of the tokens it makes."""
    proprio: ProprioFeatures
    """The normalisation of proprioception in its percepts."""

    def forward(self, observation: Observation) -> Percept:
        """Perceive B observations."""
        raise NotImplementedError
