"""Schema mappings: which field of a foreign dataset means what, as a YAML file each in `configs/mapping/`."""

from collections.abc import Mapping
from dataclasses import MISSING, dataclass, fields, is_dataclass
from importlib import resources
from pathlib import Path
from types import UnionType
from typing import Any, get_args, get_origin, get_type_hints

from robomem.errors import RobomemError, nearest
from robomem.spec import VectorSpec

FORMATS = ("lerobot", "rlds", "npz")
UNDECIDED = "?"
"""In the place of a value that only a person can know; refused until it is replaced."""
_FOLDER = resources.files("robomem.configs") / "mapping"


@dataclass(frozen=True, kw_only=True)
class VectorMapping:
    """Where a vector comes from, and what it means."""

    keys: tuple[str, ...]
    """Fields that are joined in this order."""
    spec: VectorSpec
    """Names, units, frame and limits of the joined vector."""


@dataclass(frozen=True, kw_only=True)
class SchemaMapping:
    """The meaning of a dataset's fields.

    Fields of RLDS are paths such as `observation/image`; `rgb/1` is the second camera of an NPZ array whose cameras lie
    one after another in its channels.
    """

    name: str
    """Of the file."""
    format: str
    """`lerobot`, `rlds` or `npz`."""
    robot_type: str | None = None
    """LeRobot's `robot_type`, or the name of a TFDS dataset; `*` stands for any letters, and `|` is between
    alternatives. A mapping without one fits any."""
    cameras: Mapping[str, str]
    """Field of each camera, by the name that policies know it by. `"*": observation.images.*` takes every camera by
    the dataset's own name."""
    proprio: VectorMapping
    action: VectorMapping
    instruction: str
    """Field of the instruction; `task` is LeRobot's own."""
    timestamps: str | None = None
    """Field of measured seconds since the episode's start; without one, ticks are `period` apart."""
    period: float | None = None
    """Seconds between ticks; by default 1 / fps of the dataset."""
    reward: str | None = None
    """Field of the reward after each action; zeros without one."""
    success: str | bool = False
    """Field of success after each action, or what holds at the last tick of every episode."""

    def __post_init__(self) -> None:
        """Check what the types do not."""
        if self.format not in FORMATS:
            raise RobomemError(f"mapping {self.name}: format={self.format!r} is not one of {', '.join(FORMATS)}")
        if self.period is not None and not 0 < self.period < 10:
            raise RobomemError(f"mapping {self.name}: period={self.period} must be seconds between two ticks")


def mapping_names() -> list[str]:
    """Names of the mappings that come with RoboMem, sorted."""
    return sorted(entry.name.removesuffix(".yaml") for entry in _FOLDER.iterdir() if entry.name.endswith(".yaml"))


def load_mapping(name: str) -> SchemaMapping:
    """Read a mapping.

    Args:
        name: One of `mapping_names`, or the path of a YAML file.

    Raises:
        RobomemError: no such mapping, or a key or value in it that does not belong there.
    """
    import yaml

    own = not name.endswith((".yaml", ".yml"))
    if own and name not in (known := mapping_names()):
        raise RobomemError(f"{name!r} is no mapping and no path of a YAML file{nearest(name, known)}")
    path = _FOLDER / f"{name}.yaml" if own else Path(name)
    try:
        value = yaml.safe_load(path.read_text())
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        reason = " ".join(str(error).split())
        raise RobomemError(f"the mapping {name} cannot be read ({reason}); correct the file or give another") from error
    try:
        return _typed(SchemaMapping, {"name": Path(name).stem} | value if isinstance(value, dict) else value, "")
    except (RobomemError, ValueError) as error:
        raise RobomemError(f"the mapping {name} is wrong: {error}") from error


def _typed(kind: Any, value: Any, where: str) -> Any:
    """A value of YAML as a type: a dataclass, a union, a tuple or mapping of one type, or a plain type."""
    if value == UNDECIDED:
        raise RobomemError(f"{where} is still {UNDECIDED!r}; decide it")
    origin, arguments = get_origin(kind), get_args(kind)
    if is_dataclass(kind) and isinstance(value, dict):
        return _dataclass(kind, value, f"{where}." if where else "")
    if origin is tuple and isinstance(value, list):
        return tuple(_typed(arguments[0], item, f"{where}[{i}]") for i, item in enumerate(value))
    if origin is Mapping and isinstance(value, dict):
        return {_typed(arguments[0], k, where): _typed(arguments[1], v, f"{where}.{k}") for k, v in value.items()}
    if origin is UnionType:
        match = [part for part in arguments if type(value) is part or (part is float and type(value) is int)]
        return _typed(match[0], value, where) if match else _refuse(arguments, value, where)
    if kind is float and type(value) is int:
        return float(value)
    return value if type(value) is kind else _refuse((kind,), value, where)


def _dataclass(kind: Any, value: Mapping[str, Any], prefix: str) -> Any:
    types, known = get_type_hints(kind), fields(kind)
    for key in value:
        if key not in types:
            raise RobomemError(f"unknown key '{prefix}{key}'{nearest(str(key), types)}")
    if missing := [f.name for f in known if f.name not in value and f.default is MISSING]:
        raise RobomemError(f"it needs a value for {prefix}{missing[0]}")
    return kind(**{name: _typed(types[name], item, prefix + name) for name, item in value.items()})


def _refuse(kinds: tuple[Any, ...], value: Any, where: str) -> Any:
    names = {str: "text", bool: "true or false", float: "a number", tuple: "a list", type(None): "null"}
    wanted = " or ".join(names.get(get_origin(kind) or kind, "keys with values") for kind in kinds)
    raise RobomemError(f"{where or 'the file'} is {value!r} and must be {wanted}")
