"""The vectors of an episode from the fields of a dataset, as its schema mapping says, whatever the format."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy import ndarray

from robomem.datasets.mapping import SchemaMapping, VectorMapping


def vector_fields(mapping: SchemaMapping) -> list[str]:
    """The fields that `assemble_vectors` takes, each once."""
    optional = (mapping.timestamps, mapping.reward, mapping.success)
    fields = [*mapping.proprio.keys, *mapping.action.keys, *(name for name in optional if isinstance(name, str))]
    return list(dict.fromkeys(fields))


def assemble_vectors(
    mapping: SchemaMapping, columns: Mapping[str, ndarray], ticks: int, period: float
) -> dict[str, Any]:
    """Read-only `proprio`, `actions`, `timestamps`, `reward` and `success` of an episode, arguments of `Episode`.

    Args:
        mapping: The meaning of the fields.
        columns: Numbers of T ticks by field, (T,) or (T, N).
        ticks: T.
        period: Seconds between ticks, where no field tells the time.
    """
    last = np.arange(ticks) == ticks - 1
    return {
        "proprio": _vector(columns, mapping.proprio),
        "actions": _vector(columns, mapping.action),
        "timestamps": _scalar(columns, mapping.timestamps, np.arange(ticks) * period, np.float64),
        "reward": _scalar(columns, mapping.reward, np.zeros(ticks), np.float32),
        "success": _scalar(columns, mapping.success, last & bool(mapping.success), np.bool_),
    }


def freeze(array: ndarray) -> ndarray:
    """The array itself, now read-only."""
    array.setflags(write=False)
    return array


def _vector(columns: Mapping[str, ndarray], vector: VectorMapping) -> ndarray:
    """(T, N) numbers of the joined fields."""
    parts = [columns[key].reshape(len(columns[key]), -1).astype(np.float32) for key in vector.keys]
    return freeze(np.concatenate(parts, axis=1))


def _scalar(columns: Mapping[str, ndarray], field: str | bool | None, default: ndarray, dtype: Any) -> ndarray:
    """(T,) numbers of a field, or the default without one."""
    return freeze((columns[field].reshape(-1) if isinstance(field, str) else default).astype(dtype))
