"""Whether `meta/stats.json` is what the episodes' own statistics make together."""

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
from numpy import ndarray

from robomem.datasets import lerobot_format as form
from robomem.datasets.checking.finding import Finding
from robomem.datasets.checking.info import read_document
from robomem.datasets.checking.survey import Survey

_TOLERANCE = 1e-3
"""By which a mean or a limit may differ, in standard deviations."""


def check_statistics(survey: Survey) -> Iterator[Finding]:
    """Compare the statistics of the whole with those in the table of episodes."""
    whole = read_document(survey.root, form.STATISTICS)
    if isinstance(whole, Finding):
        yield whole
        return
    if not survey.table_complete or any(finding.check in _PREVENTS for finding in survey.findings):
        return
    for feature in survey.info["features"]:
        parts = [_numbers(row, f"stats/{feature}/") for row in survey.rows.values()]
        if not parts or any(part is None for part in parts):
            continue
        if feature not in whole:
            yield Finding(check="wrong-statistics", file=form.STATISTICS, what=f"it has no {feature}")
        elif not _agree(whole[feature], [part for part in parts if part is not None]):
            what = f"those of {feature} are not those of the episodes together"
            yield Finding(check="wrong-statistics", file=form.STATISTICS, what=what)


_PREVENTS = ("uncommitted", "wrong-statistics", "wrong-table")
"""Findings after which the episodes' own statistics say nothing about those of the whole."""


def _numbers(values: Any, prefix: str = "") -> dict[str, ndarray] | None:
    """Mean, limits and count of a feature as flat arrays; None if one is missing or no number."""
    try:
        names = ("min", "max", "mean", "std", "count")
        return {name: np.asarray(values[prefix + name], np.float64).reshape(-1) for name in names}
    except (KeyError, TypeError, ValueError):
        return None


def _agree(told: Any, parts: list[dict[str, ndarray]]) -> bool:
    found = _numbers(told) if isinstance(told, Mapping) else None
    if found is None or len({part["mean"].shape for part in [found, *parts]}) != 1:
        return False
    counts = np.array([part["count"][0] for part in parts])
    expected = {
        "min": np.min([part["min"] for part in parts], axis=0),
        "max": np.max([part["max"] for part in parts], axis=0),
        "mean": (counts[:, None] * [part["mean"] for part in parts]).sum(axis=0) / counts.sum(),
    }
    room = _TOLERANCE * (np.max([part["std"] for part in parts], axis=0) + np.abs(expected["mean"]) + 1e-6)
    # A comparison with NaN is false.
    return all(bool((np.abs(found[name] - value) <= room).all()) for name, value in expected.items())
