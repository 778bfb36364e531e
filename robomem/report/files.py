"""JSON, JSON lines and YAML read with checks that name the file, the field and the fix."""

import json
import math
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from robomem.errors import RobomemError


@dataclass(frozen=True)
class Node:
    """A value of a file, and where it stands there; every reader raises `RobomemError` for what it does not expect."""

    value: Any
    path: Path
    fix: str
    """What the user can do when the file is wrong."""
    where: str = ""

    def error(self, problem: str) -> RobomemError:
        """An error that names the file, the field, the problem and the fix in one line."""
        place = f"{self.path} ({self.where})" if self.where else f"{self.path}"
        return RobomemError(f"{place} {problem}; {self.fix}")

    def _inside(self, name: str, value: Any) -> "Node":
        return Node(value, self.path, self.fix, f"{self.where}.{name}" if self.where else name)

    def mapping(self) -> dict[str, Any]:
        """The value as a mapping."""
        if not isinstance(self.value, dict):
            raise self.error("should be a mapping")
        return self.value

    def find(self, key: str) -> "Node | None":
        """The entry of a mapping, None where it is absent or null."""
        value = self.mapping().get(key)
        return None if value is None else self._inside(key, value)

    def get(self, key: str) -> "Node":
        """The entry of a mapping."""
        found = self.find(key)
        if found is None:
            raise self.error(f"has no {key!r}")
        return found

    def items(self) -> Iterator[tuple[str, "Node"]]:
        """The entries of a mapping."""
        return ((str(key), self._inside(str(key), value)) for key, value in self.mapping().items())

    def rows(self) -> "list[Node]":
        """The entries of a list."""
        if not isinstance(self.value, list):
            raise self.error("should be a list")
        return [self._inside(str(index), value) for index, value in enumerate(self.value)]

    def number(self) -> float:
        """The value as a finite number."""
        value = self.any_number()
        if not math.isfinite(value):
            raise self.error(f"is {value}, not a finite number")
        return value

    def any_number(self) -> float:
        """The value as a number; NaN and infinities too."""
        if isinstance(self.value, bool) or not isinstance(self.value, int | float):
            raise self.error(f"is {self.value!r}, not a number")
        return float(self.value)

    def whole(self) -> int:
        """The value as a whole number."""
        if isinstance(self.value, bool) or not isinstance(self.value, int):
            raise self.error(f"is {self.value!r}, not a whole number")
        return self.value

    def flag(self) -> bool:
        """The value as true or false."""
        if not isinstance(self.value, bool):
            raise self.error(f"is {self.value!r}, not true or false")
        return self.value

    def text(self) -> str:
        """The value as text."""
        if not isinstance(self.value, str):
            raise self.error(f"is {self.value!r}, not text")
        return self.value


def read_json(path: Path, fix: str) -> Node:
    """Read a JSON file.

    Raises:
        RobomemError: the file cannot be read or is not JSON.
    """
    try:
        return Node(json.loads(_text(path, fix)), path, fix)
    except ValueError as error:
        raise RobomemError(f"{path} is not JSON ({error}); {fix}") from error


def read_lines(path: Path, fix: str) -> list[Node]:
    """Read a file of one JSON mapping per line; a last line still being written is left out.

    Raises:
        RobomemError: the file cannot be read, or a complete line is not a JSON mapping.
    """
    nodes = []
    for number, line in enumerate(_text(path, fix).splitlines(keepends=True), start=1):
        try:
            value = json.loads(line)
        except ValueError as error:
            if not line.endswith("\n"):
                break
            raise RobomemError(f"{path} (line {number}) is not JSON ({error}); {fix}") from error
        node = Node(value, path, fix, f"line {number}")
        node.mapping()
        nodes.append(node)
    return nodes


def read_yaml(path: Path, fix: str) -> Node:
    """Read a YAML file.

    Raises:
        RobomemError: the file cannot be read or is not YAML.
    """
    try:
        return Node(yaml.safe_load(_text(path, fix)), path, fix)
    except yaml.YAMLError as error:
        raise RobomemError(f"{path} is not YAML ({' '.join(str(error).split())}); {fix}") from error


def _text(path: Path, fix: str) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise RobomemError(f"{path} cannot be read ({error}); {fix}") from error
