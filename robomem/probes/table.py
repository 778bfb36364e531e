"""What the cells of a folder say together."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from robomem.intervals import CONFIDENCE, wilson

RESAMPLES = 2000

Scores = Sequence[Sequence[float]]
"""Of every episode of every seed."""


@dataclass(frozen=True)
class Estimate:
    """A mean over seeds and episodes with its 95% interval."""

    mean: float
    low: float
    high: float

    def text(self, digits: int = 2) -> str:
        """`0.92 [0.81, 0.97]`."""
        return f"{self.mean:.{digits}f} [{self.low:.{digits}f}, {self.high:.{digits}f}]"


@dataclass(frozen=True)
class Row:
    """All that was measured of one module on one probe."""

    probe: str
    module: str
    seeds: list[int]
    parameters: int
    """Of the module alone."""
    scores: Mapping[str, Estimate]
    """By condition."""
    measured: Mapping[str, float]
    """Other quantities, medians over the seeds."""

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON."""
        return {**vars(self), "scores": {name: vars(score) for name, score in self.scores.items()}}


def rows(results: Iterable[Mapping[str, Any]]) -> list[Row]:
    """One row per probe and module, in the order of the results."""
    groups: dict[tuple[str, str], list[Mapping[str, Any]]] = {}
    for result in results:
        groups.setdefault((result["cell"]["probe"], result["cell"]["module"]), []).append(result)
    return [
        Row(
            probe=probe,
            module=module,
            seeds=[cell["cell"]["seed"] for cell in cells],
            parameters=cells[0]["parameters"]["module"],
            scores={name: estimate([cell["scores"][name] for cell in cells]) for name in cells[0]["scores"]},
            measured={
                name: float(np.median([cell["measured"][name] for cell in cells])) for name in cells[0]["measured"]
            },
        )
        for (probe, module), cells in groups.items()
    ]


def estimate(scores: Scores) -> Estimate:
    """Mean of all scores; Wilson's interval if all are 0 or 1, otherwise the bootstrap's over seeds and episodes."""
    values = np.array(scores, float)
    if np.isin(values, (0, 1)).all() and (found := wilson(int(values.sum()), values.size)):
        return Estimate(found.rate, found.low, found.high)
    rng = np.random.default_rng(0)
    seeds = rng.integers(len(values), size=(RESAMPLES, len(values), 1))
    episodes = rng.integers(values.shape[1], size=(RESAMPLES, *values.shape))
    means = values[seeds, episodes].mean((1, 2))
    low, high = np.quantile(means, [(1 - CONFIDENCE) / 2, (1 + CONFIDENCE) / 2])
    return Estimate(float(values.mean()), float(low), float(high))
