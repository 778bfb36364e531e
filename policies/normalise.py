"""Physical units in and out: the only place that knows the normalisation statistics."""

import torch
from jaxtyping import Float
from torch import Tensor, nn

from robomem.spec import VectorSpec
from robomem.statistics import VectorStatistics

MIN_STD = 1e-2
"""Entries that hardly vary in the data are not blown up."""


class ProprioFeatures(nn.Module):
    """Proprioception (.., P) to features (.., F) of zero mean and unit variance; angles become sine and cosine.

    A roll of pi jumps to -pi from one frame to the next with the gripper pointing down; its sine and cosine do not.
    """

    mean: Tensor
    std: Tensor

    def __init__(self, spec: VectorSpec, statistics: VectorStatistics) -> None:
        """Take the units from the specification and the moments from the statistics."""
        super().__init__()
        self.angles = [i for i, unit in enumerate(spec.units) if unit == "rad"]
        self.linear = [i for i, unit in enumerate(spec.units) if unit != "rad"]
        self.register_buffer("mean", torch.tensor(statistics.mean)[self.linear], persistent=False)
        self.register_buffer("std", torch.tensor(statistics.std)[self.linear].clamp_min(MIN_STD), persistent=False)

    @property
    def size(self) -> int:
        """F."""
        return len(self.linear) + 2 * len(self.angles)

    @property
    def places(self) -> int:
        """Entries that are no angles."""
        return len(self.linear)

    def place(self, proprio: Float[Tensor, "*B P"]) -> Float[Tensor, "*B L"]:
        """The entries that are no angles, normalised: where the arm is."""
        return (proprio[..., self.linear] - self.mean) / self.std

    def forward(self, proprio: Float[Tensor, "*B P"]) -> Float[Tensor, "*B F"]:
        """Features of proprioception."""
        angles = proprio[..., self.angles]
        return torch.cat([self.place(proprio), angles.sin(), angles.cos()], dim=-1)


class Affine(nn.Module):
    """A vector in physical units to one that a network handles, and back."""

    offset: Tensor
    scale: Tensor

    def __init__(self, offset: Tensor, scale: Tensor) -> None:
        """Normalised = (physical - offset) / scale."""
        super().__init__()
        self.register_buffer("offset", offset, persistent=False)
        self.register_buffer("scale", scale, persistent=False)

    @classmethod
    def of_range(cls, statistics: VectorStatistics) -> "Affine":
        """Map the range of the data to [-1, 1]; entries that never change stay as they are."""
        low, high = torch.tensor(statistics.low), torch.tensor(statistics.high)
        span = (high - low) / 2
        return cls((high + low) / 2, torch.where(span < 1e-6, torch.ones_like(span), span))

    @classmethod
    def of_moments(cls, statistics: VectorStatistics) -> "Affine":
        """Map to zero mean and unit variance."""
        return cls(torch.tensor(statistics.mean), torch.tensor(statistics.std).clamp_min(MIN_STD))

    def forward(self, physical: Float[Tensor, "*B A"]) -> Float[Tensor, "*B A"]:
        """Physical to normalised."""
        return (physical - self.offset) / self.scale

    def inverse(self, normalised: Float[Tensor, "*B A"]) -> Float[Tensor, "*B A"]:
        """Normalised to physical."""
        return normalised * self.scale + self.offset
