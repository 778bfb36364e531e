"""Normalisation statistics: computed from a dataset, stored in the checkpoint, identified by their digest."""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Self


@dataclass(frozen=True, kw_only=True)
class VectorStatistics:
    """Per-entry statistics of proprioception or actions over all ticks of a dataset."""

    mean: tuple[float, ...]
    std: tuple[float, ...]
    low: tuple[float, ...]
    """Smallest value."""
    high: tuple[float, ...]
    """Largest value."""


@dataclass(frozen=True, kw_only=True)
class Statistics:
    """What a policy needs to normalise its inputs and outputs."""

    proprio: VectorStatistics
    action: VectorStatistics
    ticks: int
    """Number of ticks they were computed over."""

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON."""
        return asdict(self)

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Self:
        """Inverse of `to_dict`."""
        vectors = {
            name: VectorStatistics(**{k: tuple(v) for k, v in data[name].items()}) for name in ("proprio", "action")
        }
        return cls(ticks=data["ticks"], **vectors)

    @property
    def digest(self) -> str:
        """Hash that ties weights to the statistics they were trained with."""
        return hashlib.sha256(json.dumps(self.to_dict(), sort_keys=True).encode()).hexdigest()[:16]
