"""Writes episodes as an RLDS dataset that `tfds.load` and other RLDS loaders read.

Shards are planned ahead and finished one by one in a folder beside the dataset's place; that folder takes its place
once all of them are there. What a killed writer had not finished is written again by the next one.
"""

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy import ndarray

from robomem.datasets import rlds_format as form
from robomem.datasets.encoding import encode_png
from robomem.datasets.rlds_process import tensorflow_process
from robomem.datasets.rlds_source import RldsSource
from robomem.datasets.source import EpisodeSource
from robomem.episode import Episode
from robomem.errors import RobomemError
from robomem.files import disk_guard, locked, read_json, sync, write_json

SHARD_BYTES = 128 * 2**20
"""Decoded frames in a shard, about: what a kill may cost to write again."""

_LOCK = ".writer.lock"
_PLAN = ".plan.json"


def write_rlds(
    source: EpisodeSource,
    folder: Path | str,
    *,
    name: str = "mikasa_dataset",
    version: str = "1.0.0",
    layout: Mapping[str, str] | None = None,
    shard_bytes: int = SHARD_BYTES,
    report: Callable[[int], None] = lambda done: None,
) -> Path:
    """Write all episodes of a source as split `train`; given again it goes on, or changes nothing once it is done.

    Args:
        source: The episodes.
        folder: TFDS's `data_dir`; the dataset becomes `folder/name/version`.
        name: Of the dataset: lower-case letters, digits and underscores.
        version: Three numbers.
        layout: Field in `observation` of each camera; by default `image` and `wrist_image` for cameras `top` and
            `wrist`, as in the released MIKASA-Robo-VLA datasets, and the cameras' own names otherwise.
        shard_bytes: Decoded frames in a shard, about.
        report: Told the number of episodes that are done, after each.

    Returns:
        The folder of the version.

    Raises:
        SpecMismatch, NonFiniteError: an episode does not fit the source's embodiment or is not finite.
        RobomemError: there is another dataset already, a process that writes it, a full disk, arguments that do not
            fit, or TensorFlow died or is not installed.
    """
    if not re.fullmatch(r"[a-z][a-z0-9_]*", name) or not re.fullmatch(r"\d+\.\d+\.\d+", version):
        raise RobomemError(
            f"{name}:{version} is no name and version of a TFDS dataset; write such as my_dataset, 1.0.0"
        )
    target = Path(folder) / name / version
    if target.exists():
        if _holds(target, source):
            return target
        raise RobomemError(f"there is something else at {target} already; give another folder, or remove it")
    images = form.image_fields(source.embodiment.cameras, layout)
    recorded = form.Recorded(source.embodiment, images, source.provenance)
    unfinished = target.with_name(f"{version}.partial")
    busy = f"another process is writing {unfinished}; wait for it or give another folder"
    with disk_guard(target, "the dataset is not whole"), locked(unfinished / _LOCK, busy):
        writing = _Writing(source, unfinished, recorded, name, version, _plan(source, shard_bytes))
        writing.resume()
        writing.write_shards(report)
        writing.finish(target)
    return target


def _holds(folder: Path, source: EpisodeSource) -> bool:
    """Whether a finished dataset is of these episodes, by what it tells of them without decoding any."""
    if form.load_recorded(folder) is None:
        return False
    done = RldsSource(folder)
    names = ("embodiment", "provenance", "seeds", "lengths", "successes")
    return all(getattr(done, name) == getattr(source, name) for name in names)


@dataclass
class _Writing:
    """One dataset on its way."""

    source: EpisodeSource
    folder: Path
    recorded: form.Recorded
    name: str
    version: str
    shards: list[range]
    """Positions in the source of the episodes of each shard."""

    def resume(self) -> None:
        """Keep the finished shards of the same dataset; anything else in the folder goes."""
        source = self.source
        plan = {
            "name": f"{self.name}:{self.version}",
            "images": self.recorded.images,
            "embodiment": source.embodiment.to_dict(),
            "provenance": source.provenance,
            "episodes": [source.indices, source.lengths, source.seeds],
            "shards": [len(shard) for shard in self.shards],
        }
        path, plan = self.folder / _PLAN, json.loads(json.dumps(plan))
        if path.exists() and read_json(path) == plan:
            return
        for entry in self.folder.iterdir():
            if entry.name != _LOCK:
                entry.unlink()
        write_json(path, plan)

    def write_shards(self, report: Callable[[int], None]) -> None:
        """Write the shards that are missing."""
        for number, positions in enumerate(self.shards):
            path = self.folder / self._shard_name(number)
            if not path.exists():
                self._write_shard(path, positions, report)
            report(positions.stop)

    def finish(self, target: Path) -> None:
        """Describe the dataset and move it to its place."""
        self._call(
            "describe_shards",
            folder=str(self.folder),
            version=self.version,
            lengths=[len(shard) for shard in self.shards],
            **self._layout,
        )
        self.recorded.save(self.folder)
        for path in (*self.folder.iterdir(), self.folder):
            sync(path)
        self.folder.rename(target)
        for name in (_PLAN, _LOCK):
            (target / name).unlink()
        for path in (target, target.parent):
            sync(path)

    def _write_shard(self, path: Path, positions: range, report: Callable[[int], None]) -> None:
        temporary = path.with_name(f"{path.name}.tmp")
        self._call("begin_shard", path=str(temporary), **self._layout)
        for position in positions:
            episode = self.source[position]
            episode.check(self.source.embodiment)
            about = {
                "file_path": f"episode_{self.source.indices[position]:06d}",
                form.SEED: int(episode.seed),
                form.PROVENANCE: json.dumps(dict(episode.provenance)),
            }
            arrays = _arrays(episode, self.recorded.images)
            self._call("add_episode", arrays, path=str(temporary), instruction=episode.instruction, episode=about)
            report(position + 1)
        found = self._call("end_shard", path=str(temporary))
        if found != len(positions):
            raise RobomemError(
                f"{temporary} was read back with {found} of {len(positions)} episodes; check the disk, then rerun"
            )
        sync(temporary)
        temporary.rename(path)
        sync(self.folder)

    def _call(self, method: str, arrays: Mapping[str, ndarray] | None = None, **arguments: Any) -> Any:
        return tensorflow_process().call(self.folder, method, arrays, **arguments)[0]

    @property
    def _layout(self) -> dict[str, Any]:
        """The sizes that determine the fields."""
        embodiment = self.recorded.embodiment
        images = {self.recorded.images[c.name]: [c.height, c.width] for c in embodiment.cameras}
        return {"images": images, "proprio": embodiment.proprio.size, "action": embodiment.action.size}

    def _shard_name(self, number: int) -> str:
        return f"{self.name}-train.tfrecord-{number:05d}-of-{len(self.shards):05d}"


def _plan(source: EpisodeSource, shard_bytes: int) -> list[range]:
    """Consecutive episodes such that the frames of each shard take about the bytes wanted, or those of one episode."""
    tick = sum(3 * camera.height * camera.width for camera in source.embodiment.cameras)
    ends = np.cumsum(source.lengths) * tick
    count = min(max(int(ends[-1]) // shard_bytes, 1), len(ends))
    bounds = np.searchsorted(ends, np.linspace(0, ends[-1], count + 1), side="left")
    bounds[-1] = len(ends)
    bounds = np.unique(bounds)
    return [range(start, stop) for start, stop in zip(bounds[:-1].tolist(), bounds[1:].tolist(), strict=True)]


def _arrays(episode: Episode, images: Mapping[str, str]) -> dict[str, ndarray]:
    """An episode's columns and compressed frames, as the TensorFlow process takes them."""
    arrays = {
        "proprio": np.asarray(episode.proprio, np.float32),
        form.ACTION: np.asarray(episode.actions, np.float32),
        form.REWARD: np.asarray(episode.reward, np.float32),
        form.SUCCESS: np.asarray(episode.success, np.bool_),
        form.CAPTURE_TIME: np.asarray(episode.timestamps, np.float64),
    }
    for camera, field in images.items():
        frames = [encode_png(frame) for frame in episode.images[camera]]
        arrays[f"png/{field}"] = np.frombuffer(b"".join(frames), np.uint8)
        arrays[f"bytes/{field}"] = np.array([len(frame) for frame in frames])
    return arrays
