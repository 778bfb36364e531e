"""Where each episode of an RLDS dataset lies, found by one pass over its records and kept in the user's cache."""

import hashlib
import json
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from rich.console import Console
from rich.progress import track

from robomem.datasets import rlds_format as form
from robomem.datasets.rlds_process import tensorflow_process
from robomem.errors import RobomemError
from robomem.files import user_cache, write_json

_VERSION = 1
"""Of the cached file's content."""


class Record(NamedTuple):
    """One episode's place and what is known of it without its frames."""

    shard: int
    offset: int
    """Bytes from the start of the shard."""
    ticks: int
    success: bool | None
    """Whether the field of success held at any tick; None without such a field."""
    seed: int | None


class FieldInfo(NamedTuple):
    """What TFDS says of a field."""

    shape: list[int | None]
    dtype: str
    """Of numpy, or `text`."""


@dataclass(frozen=True)
class RldsIndex:
    """A split of a dataset."""

    folder: Path
    name: str
    """Of the dataset."""
    version: str
    steps: Mapping[str, FieldInfo]
    """Fields of a step by their paths."""
    episode: Mapping[str, FieldInfo]
    """Fields of `episode_metadata`."""
    shards: tuple[Path, ...]
    records: tuple[Record, ...]
    """Episodes in the order of the shards."""


def load_index(folder: Path, split: str, ticks: str, success: str | None, seed: str | None) -> RldsIndex:
    """The index of a split, from the cache if the files are those that it was made of.

    Args:
        folder: The dataset's version.
        split: Its name.
        ticks: Field of a step that tells the number of ticks.
        success: Field of a step that tells success, if there is one.
        seed: Field of `episode_metadata` that tells the seed, if there is one.

    Raises:
        RobomemError: no such split or field, or a file that is missing or damaged.
    """
    cached = _cache_file(folder, split, ticks, success, seed)
    with suppress(OSError, ValueError, TypeError, KeyError):  # no index yet, or not a whole one
        return _index(folder, **json.loads(cached.read_bytes()))
    described, _ = tensorflow_process().call(folder, "describe", folder=str(folder), split=split)
    counts = described.pop("shards")
    _check_present(folder, [name for name, _ in counts])
    fields = {"ticks": ticks, "success": success, "seed": seed}
    for field in filter(None, (ticks, success)):
        if field not in described[form.STEPS]:
            raise missing_field(folder, field, described[form.STEPS])
    records = []
    description = f"finding the episodes of {described['name']}"
    for number, (name, count) in enumerate(track(counts, description, console=Console(stderr=True), transient=True)):
        path = folder / name
        found, _ = tensorflow_process().call(folder, "scan", folder=str(folder), path=str(path), **fields)
        if len(found) != count:
            raise form.damaged(path, f"it holds {len(found)} episodes, {form.INFO} counts {count}")
        records += [(number, *record) for record in found]
    content = {**described, "shards": [name for name, _ in counts], "records": records}
    with suppress(OSError):  # without the file the next opening only takes longer
        write_json(cached, content)
    return _index(folder, **content)


def missing_field(folder: Path, field: str, steps: Mapping[str, Any]) -> RobomemError:
    """The error for a field that a dataset lacks."""
    return RobomemError(
        f"{folder} has no field {field!r} in its steps, only {', '.join(sorted(steps))}; correct the mapping"
    )


def _index(folder: Path, **content: Any) -> RldsIndex:
    return RldsIndex(
        folder=folder,
        name=content["name"],
        version=content["version"],
        steps={path: FieldInfo(*info) for path, info in content[form.STEPS].items()},
        episode={path: FieldInfo(*info) for path, info in content[form.EPISODE].items()},
        shards=tuple(folder / name for name in content["shards"]),
        records=tuple(Record(*record) for record in content["records"]),
    )


def _check_present(folder: Path, names: list[str]) -> None:
    absent = [name for name in names if not (folder / name).is_file()]
    if absent:
        raise RobomemError(
            f"{folder / absent[0]} is missing, as {len(absent)} of {len(names)} shards are; restore it from a copy or "
            "download it again"
        )


def _cache_file(folder: Path, *fields: str | None) -> Path:
    """The file's name is the digest of the names, sizes and times of all files of the dataset."""
    files = [(p.name, p.stat().st_size, p.stat().st_mtime_ns) for p in sorted(folder.iterdir()) if p.is_file()]
    key = json.dumps([_VERSION, str(folder.resolve()), fields, files])
    return user_cache() / "rlds" / f"{hashlib.sha256(key.encode()).hexdigest()[:32]}.json"
