"""The table of episodes and the statistics of a repaired dataset."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from numpy import ndarray

from robomem.datasets.encoding import QUANTILES, image_statistics, merge_statistics, vector_statistics
from robomem.datasets.schema import Field

_NAMES = ("min", "max", "mean", "std", "count", *(f"q{round(100 * quantile):02d}" for quantile in QUANTILES))


def lacks_image_statistics(row: Mapping[str, Any], fields: Mapping[str, Field]) -> list[str]:
    """Cameras whose statistics are not in an episode's row."""
    return [
        name
        for name, field in fields.items()
        if field.is_camera and any(row.get(f"stats/{name}/{key}") is None for key in _NAMES)
    ]


def statistics_columns(vectors: Mapping[str, ndarray], images: Mapping[str, ndarray]) -> dict[str, Any]:
    """Columns of an episode's row with the statistics of its numbers and of some of its cameras."""
    found = {name: vector_statistics(values) for name, values in vectors.items()}
    found |= {name: image_statistics(frames) for name, frames in images.items()}
    return {f"stats/{name}/{key}": value.tolist() for name, numbers in found.items() for key, value in numbers.items()}


def join_rows(rows: Sequence[Mapping[str, Any]], schema: pa.Schema | None) -> pa.Table:
    """The table of episodes: columns of the original in its types, others as they come."""
    names = list(dict.fromkeys(name for row in rows for name in row))
    columns = {}
    for name in names:
        values = [row.get(name) for row in rows]
        try:
            known = schema is not None and name in schema.names
            columns[name] = pa.array(values, schema.field(name).type if schema is not None and known else None)
        except pa.ArrowException:  # such as means of integers
            columns[name] = pa.array(values)
    return pa.table(columns)


def join_statistics(rows: Sequence[Mapping[str, Any]], features: Sequence[str]) -> dict[str, dict[str, Any]]:
    """`meta/stats.json` of all episodes together."""
    known = [name for name in features if all(row.get(f"stats/{name}/{key}") for row in rows for key in _NAMES)]
    parts = [{name: {key: np.array(row[f"stats/{name}/{key}"]) for key in _NAMES} for name in known} for row in rows]
    merged = merge_statistics(parts)
    return {name: {key: value.tolist() for key, value in numbers.items()} for name, numbers in merged.items()}
