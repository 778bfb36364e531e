"""A mapping for a dataset that none fits, with the places marked that only a person can fill."""

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from robomem.datasets.schema import DatasetSchema, Field

_UNDECIDED = "?"
_KNOWN = {
    "proprio": ("observation.state", "observation/proprio", "observation/state"),
    "action": ("action",),
    "reward": ("next.reward", "reward"),
    "success": ("next.success", "success"),
    "instruction": ("language_instruction", "observation/natural_language_instruction"),
}
"""Usual names of fields; a person confirms them by using the file."""


def propose_mapping(schema: "DatasetSchema", ranges: Mapping[str, tuple[list[float], list[float]]]) -> str:
    """A mapping of a dataset as commented YAML.

    Args:
        schema: Of the dataset.
        ranges: Least and greatest values of its fields, where they are known.
    """
    fields, lerobot = schema.fields, schema.format == "lerobot"
    cameras = {name: field for name, field in fields.items() if field.is_camera}
    reward, success = _first(fields, "reward"), _first(fields, "success")
    instruction = "task" if lerobot else _first(fields, "instruction") or _UNDECIDED
    default = f"1 / fps, {1 / schema.fps:.4g} s here, unless period: SECONDS is set" if schema.fps else "in seconds"
    lines = [
        f"# Proposed for {schema.root}: decide what is {_UNDECIDED!r}, check the rest, then give the path of this file",
        "# as data.mapping=FILE.",
        f"format: {schema.format}",
        f"robot_type: {_flow(schema.robot_type or None)}",
        "cameras:  # Names of your choice; a policy knows the cameras by them.",
        *(f"  {name.replace('/', '.').split('.')[-1]}: {name}" for name in cameras),
        *_vector("proprio", "observation", schema, ranges),
        *_vector("action", "action", schema, ranges),
        f"instruction: {_flow(instruction)}",
        f"period: {'null' if schema.fps else _flow(_UNDECIDED)}  # Between two ticks: {default}.",
        *([f"reward: {reward}"] if reward else []),
        f"success: {success or 'false'}  # A field, or what holds at the last tick of every episode.",
    ]
    return "\n".join(lines) + "\n"


def _vector(part: str, prefix: str, schema: "DatasetSchema", ranges: Mapping[str, Any]) -> Iterable[str]:
    fields = schema.fields
    known = _first(fields, part)
    alike = [name for name, field in fields.items() if name.startswith(prefix) and _is_continuous(field)]
    keys = [known] if known else alike or [_UNDECIDED]
    size = sum(fields[key].size for key in keys if key in fields)
    names = [name for key in keys if key in fields for name in fields[key].names]
    if len(set(names)) != size:
        names = [f"{part}{i}" for i in range(size)]
    seen = all(key in ranges for key in keys)
    low, high = ([round(x, 4) for key in keys for x in ranges[key][side]] if seen else _UNDECIDED for side in (0, 1))
    yield f"{part}:"
    yield f"  keys: {_flow(keys)}  # Joined in this order."
    yield "  spec:"
    yield f"    names: {_flow(names)}"
    yield f"    units: {_flow([_UNDECIDED] * size)}  # Of each number: m, rad, deg, ..."
    yield f"    frame: {_flow(_UNDECIDED)}  # Coordinate frame or controller that the numbers refer to."
    yield f"    low: {_flow(low)}  # Of the robot; {'these are the least seen' if seen else 'none are known'}."
    yield f"    high: {_flow(high)}"


def _is_continuous(field: "Field") -> bool:
    return field.is_vector and field.dtype.startswith("float")


def _first(fields: Mapping[str, "Field"], part: str) -> str | None:
    return next((name for name in _KNOWN[part] if name in fields), None)


def _flow(value: str | Sequence[Any] | None) -> str:
    """A value of YAML in one line."""
    import yaml

    return yaml.safe_dump(value, default_flow_style=True, width=10**6).removesuffix("\n...\n").strip()
