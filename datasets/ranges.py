"""Least and greatest values of a dataset's numbers: what a schema mapping is written and judged by."""

from typing import Any

import numpy as np
from numpy import ndarray

from robomem.datasets import lerobot_format as form
from robomem.datasets import rlds_format
from robomem.datasets.lerobot_index import damaged, reading
from robomem.datasets.npz_format import episode_paths, load_arrays
from robomem.datasets.rlds_process import tensorflow_process
from robomem.datasets.schema import NPZ, RLDS, DatasetSchema
from robomem.files import read_json

MOST_EPISODES = 200
"""Of RLDS and NPZ that are read; LeRobot's datasets have statistics of the whole."""

Range = tuple[list[float], list[float]]


def field_ranges(schema: DatasetSchema) -> dict[str, Range]:
    """Least and greatest value of each entry of those vectors whose values are known, by field.

    Raises:
        RobomemError: the statistics or an episode are damaged.
    """
    vectors = [name for name, field in schema.fields.items() if field.is_vector and -1 not in field.shape]
    if not vectors or not schema.episodes:
        return {}
    if schema.format == NPZ:
        return _of_npz(schema, vectors)
    return _of_rlds(schema, vectors) if schema.format == RLDS else _of_lerobot(schema, vectors)


def _of_lerobot(schema: DatasetSchema, vectors: list[str]) -> dict[str, Range]:
    path = schema.root / form.STATISTICS
    if not path.is_file():
        return {}
    statistics = read_json(path)
    with reading(path):
        found = {
            name: (_flat(statistics[name]["min"]), _flat(statistics[name]["max"]))
            for name in vectors
            if statistics.get(name)
        }
    for name, (low, high) in found.items():
        if len(low) != len(high):
            raise damaged(path, f"{name} has {len(low)} least values and {len(high)} greatest")
    return found


def _of_npz(schema: DatasetSchema, vectors: list[str]) -> dict[str, Range]:
    paths = episode_paths(schema.root)[:MOST_EPISODES]
    episodes = [load_arrays(path, vectors) for path in paths]
    columns = {name: np.concatenate([_rows(episode[name]) for episode in episodes]) for name in vectors}
    return {name: (rows.min(axis=0).tolist(), rows.max(axis=0).tolist()) for name, rows in columns.items() if len(rows)}


def _of_rlds(schema: DatasetSchema, vectors: list[str]) -> dict[str, Range]:
    paths = [str(path) for path in sorted(schema.root.glob(rlds_format.SHARDS))]
    arguments = {"folder": str(schema.root), "paths": paths, "fields": vectors, "most": MOST_EPISODES}
    _, bounds = tensorflow_process().call(schema.root, "bounds", **arguments)
    return {name: (low.tolist(), high.tolist()) for name, (low, high) in bounds.items()}


def _rows(array: ndarray) -> ndarray:
    return array.reshape(len(array), -1)


def _flat(value: Any) -> list[float]:
    return [number for part in value for number in _flat(part)] if isinstance(value, list) else [float(value)]
