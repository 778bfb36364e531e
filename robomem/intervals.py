"""Confidence intervals of counted outcomes."""

from dataclasses import dataclass
from typing import Any

CONFIDENCE = 0.95
"""Coverage of the intervals in all tables."""


@dataclass(frozen=True)
class Proportion:
    """How often something happened, with its Wilson interval."""

    count: int
    episodes: int
    rate: float
    low: float
    high: float

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON."""
        return dict(vars(self))

    def __str__(self) -> str:
        """`0.92 [0.81, 0.97]`."""
        return f"{self.rate:.2f} [{self.low:.2f}, {self.high:.2f}]"


def wilson(count: int, episodes: int) -> Proportion | None:
    """The Wilson score interval (95 %) of `count` out of `episodes`; None without episodes."""
    if not episodes:
        return None
    from scipy.stats import binomtest  # takes a second to import

    interval = binomtest(count, episodes).proportion_ci(CONFIDENCE, method="wilson")
    return Proportion(count, episodes, count / episodes, float(interval.low), float(interval.high))
