"""What a frozen encoder makes of the frames of a dataset: made once, and mapped into memory from then on.

A cache is a folder:

    contents.json     dataset, encoder, cameras, lengths of the episodes, shape of a frame's features
    episodes.jsonl    a line for each finished episode in order, with the checksums of its features
    <camera>.npy      float16, (ticks of all episodes in order, N, C)
"""

import hashlib
import json
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from itertools import accumulate
from pathlib import Path
from typing import Any, Protocol
from urllib.parse import quote

import numpy as np
from jaxtyping import Float, UInt8
from numpy import ndarray
from torch import Tensor

from robomem.datasets.source import EpisodeSource
from robomem.episode import Episode
from robomem.errors import RobomemError
from robomem.files import read_json

CONTENTS, EPISODES = "contents.json", "episodes.jsonl"
DTYPE = np.dtype("<f2")
_SAMPLED = 3
"""Episodes whose frames count in the digest of a dataset; to decode all would take as long as training does."""


class FrameEncoder(Protocol):
    """What never learns, so that its features may be kept."""

    @property
    def shape(self) -> tuple[int, int]:
        """N and C: features of a frame, and numbers of each."""
        ...

    @property
    def digest(self) -> str:
        """Hash of all that the features depend on besides the frames."""
        ...

    def __call__(self, images: UInt8[Tensor, "B Y X 3"], /) -> Float[Tensor, "B N C"]:
        """Features of B frames of one camera."""
        ...


@dataclass(frozen=True, kw_only=True)
class Contents:
    """What a cache holds; equal contents are interchangeable."""

    dataset: str
    """Digest of the episodes (see `content_digest`)."""
    encoder: str
    """Digest of the encoder."""
    cameras: Sequence[str]
    lengths: Sequence[int]
    """Ticks of each episode."""
    shape: Sequence[int]
    """N and C."""

    @classmethod
    def of(cls, source: EpisodeSource, encoder: FrameEncoder) -> "Contents":
        """What a cache of all episodes of a source would hold."""
        cameras = [camera.name for camera in source.embodiment.cameras]
        return cls(
            dataset=content_digest(source),
            encoder=encoder.digest,
            cameras=cameras,
            lengths=list(source.lengths),
            shape=list(encoder.shape),
        )

    @property
    def name(self) -> str:
        """A folder's name that belongs to these contents alone."""
        return f"{self.dataset}-{self.encoder}"

    @property
    def bytes_per_tick(self) -> int:
        """Of one camera."""
        return DTYPE.itemsize * self.shape[0] * self.shape[1]

    @property
    def size(self) -> int:
        """Bytes of all features."""
        return len(self.cameras) * sum(self.lengths) * self.bytes_per_tick

    @cached_property
    def starts(self) -> list[int]:
        """First tick of each episode in the files, and the end of the last."""
        return [0, *accumulate(self.lengths)]

    def file(self, folder: Path, camera: str) -> Path:
        """Where the features of a camera lie."""
        return folder / f"{quote(camera, safe='')}.npy"

    def check(self, folder: Path) -> None:
        """Raise `RobomemError` unless a folder is a cache of these contents."""
        found = read_json(folder / CONTENTS)
        if not isinstance(found, dict) or found.keys() != asdict(self).keys():
            raise damaged(folder, f"{CONTENTS} is not what this version writes")
        if differences := [name for name, value in asdict(self).items() if found[name] != value]:
            raise RobomemError(
                f"{folder} holds features of another dataset or encoder ({', '.join(differences)} differ); "
                "give another folder, or remove that one"
            )


class EmbeddingCache:
    """The features of the episodes of a source, by position: a read-only array (T, N, C) of float16 for each camera."""

    def __init__(self, folder: Path, contents: Contents) -> None:
        """Open a finished cache.

        Raises:
            RobomemError: it is not finished, damaged, or of other contents.
        """
        contents.check(folder)
        self.shape = tuple(contents.shape)
        """N and C."""
        self._folder, self._contents = folder, contents
        self._checksums, _ = finished_episodes(folder, contents)
        if len(self._checksums) < len(contents.lengths):
            raise damaged(folder, f"it has {len(self._checksums)} of {len(contents.lengths)} episodes")
        self._arrays = {camera: self._map(camera) for camera in contents.cameras}
        self._checked: set[int] = set()

    def __getitem__(self, position: int) -> Mapping[str, ndarray]:
        """The features of an episode.

        Raises:
            RobomemError: they are not what was written.
        """
        first, end = self._contents.starts[position], self._contents.starts[position + 1]
        features = {camera: array[first:end] for camera, array in self._arrays.items()}
        if position not in self._checked:
            if [zlib.crc32(array) for array in features.values()] != self._checksums[position]:
                raise damaged(self._folder, f"the features of episode {position} are not those that were written")
            self._checked.add(position)
        return features

    def _map(self, camera: str) -> ndarray:
        path = self._contents.file(self._folder, camera)
        try:
            array = np.load(path, mmap_mode="r", allow_pickle=False)
        except (OSError, ValueError) as error:
            raise damaged(self._folder, f"{path.name}: {error}") from error
        if (array.dtype, array.shape) != (DTYPE, (self._contents.starts[-1], *self.shape)):
            raise damaged(self._folder, f"{path.name} holds {array.dtype} {array.shape}")
        return array


def is_finished(folder: Path, contents: Contents) -> bool:
    """Whether a cache of these contents needs no more encoding."""
    return (folder / EPISODES).exists() and len(finished_episodes(folder, contents)[0]) == len(contents.lengths)


def finished_episodes(folder: Path, contents: Contents) -> tuple[list[list[int]], int]:
    """The checksums of each finished episode's features by camera, and the bytes of their lines.

    A last line that a killed process left half written does not count.

    Raises:
        RobomemError: a line that was never written so.
    """
    path = folder / EPISODES
    written = path.read_bytes() if path.exists() else b""
    *lines, torn = written.split(b"\n")
    try:
        checksums: list[list[int]] = [json.loads(line)["crc32"] for line in lines]
        fits = all(len(line) == len(contents.cameras) for line in checksums) and len(lines) <= len(contents.lengths)
    except (ValueError, KeyError, TypeError) as error:
        raise damaged(folder, f"{EPISODES}: {error}") from error
    if not fits:
        raise damaged(folder, f"{EPISODES} has lines of other episodes")
    return checksums, len(written) - len(torn)


def content_digest(source: EpisodeSource) -> str:
    """Hash of the episodes of a source: all their vectors, texts and provenance, and the frames of a few of them."""
    whole: list[Any] = [source.embodiment.to_dict(), source.provenance, list(source.lengths)]
    total = hashlib.sha256(json.dumps(whole, sort_keys=True).encode())
    for position in range(len(source)):
        total.update(_vectors(source.without_images(position)))
    for position in sorted({round(i) for i in np.linspace(0, len(source) - 1, _SAMPLED)}):
        for _, frames in sorted(source[position].images.items()):
            total.update(np.ascontiguousarray(frames))
    return total.hexdigest()[:16]


def damaged(folder: Path, what: object) -> RobomemError:
    """The error for a cache whose files are not as they were written."""
    return RobomemError(f"the features in {folder} are damaged ({what}); remove that folder, they are made again then")


def _vectors(episode: Episode) -> bytes:
    texts = json.dumps([episode.instruction, episode.seed, dict(episode.provenance)], sort_keys=True)
    arrays = (episode.proprio, episode.actions, episode.timestamps)
    return texts.encode() + b"".join(array.tobytes() for array in arrays)
