"""Writes episodes as a LeRobotDataset v3 such that a saved episode is never lost.

An episode is durable files of its own (videos, if any, its rows, and a row of the episodes' table); replacing
`meta/info.json`, which counts them, is the commit. What a killed writer left beyond that count is removed at the next
opening. Closing merges the small files.
"""

from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from robomem.datasets import lerobot_format as form
from robomem.datasets.commit import commit, load_committed
from robomem.datasets.compaction import compact, is_renumbered, remove_aside, renumber
from robomem.datasets.config import FrameCodec
from robomem.datasets.encoding import EncodedEpisode, encode
from robomem.datasets.lerobot_index import DatasetIndex, is_dataset, load_index
from robomem.datasets.video_frames import remove_unnamed
from robomem.episode import Episode
from robomem.errors import RobomemError, SpecMismatch
from robomem.files import acquire, disk_guard, write_json
from robomem.spec import EmbodimentSpec

_LOCK = ".writer.lock"


class EpisodeWriter:
    """Appends episodes to a dataset, new or existing, as its only writer; use it as a context manager."""

    def __init__(
        self,
        root: Path | str,
        embodiment: EmbodimentSpec,
        *,
        codec: FrameCodec | None = None,
        provenance: Mapping[str, Any] | None = None,
    ) -> None:
        """Open a dataset for writing and mend what an interrupted writer left.

        Args:
            root: Its folder: missing, empty, or a dataset of the same embodiment.
            embodiment: The robot of the episodes.
            codec: How frames are stored; by default as the dataset does, and as PNG in a new one.
            provenance: JSON values that describe a new dataset as a whole; those of an existing one stay.

        Raises:
            SpecMismatch: the dataset has another embodiment, or stores frames otherwise.
            RobomemError: another process writes it, the folder holds something else, a file of it is damaged, or the
                disk is full.
        """
        self.root = Path(root)
        self.embodiment = embodiment
        with disk_guard(self.root, "the dataset was not opened"):
            _refuse_foreign(self.root)
            busy = f"another process is writing {root}; wait for it or give another folder"
            self._lock = acquire(self.root / _LOCK, busy)
            try:
                if not is_dataset(self.root):
                    _create(self.root, embodiment, codec or FrameCodec(), provenance or {})
                index = _recover(self.root, embodiment)
                self.codec: FrameCodec = form.frame_codec(index.info["features"])
                """How frames are stored."""
                self._check_codec(codec or self.codec)
                self._committed = load_committed(index)
            except BaseException:
                self._lock.release()
                raise
        self.provenance: dict[str, Any] = index.provenance
        """JSON values that describe the dataset as a whole."""
        self._seeds: list[int] = index.episodes["seed"].to_pylist() if len(index.episodes) else []

    @property
    def seeds(self) -> tuple[int, ...]:
        """Seed of each saved episode, in order."""
        return tuple(self._seeds)

    @property
    def ticks(self) -> int:
        """Ticks of all saved episodes."""
        return self._committed.info["total_frames"]

    def __len__(self) -> int:
        """Number of saved episodes."""
        return len(self._seeds)

    def save(self, episode: Episode | EncodedEpisode) -> int:
        """Append an episode; once this returns, it survives `kill -9` and a power failure.

        Args:
            episode: An episode, or the value of `encode` for it (made in another process, say).

        Returns:
            Its index in the dataset.

        Raises:
            SpecMismatch: it does not fit the dataset.
            NonFiniteError: a NaN or an infinity in its numbers.
            RobomemError: it has no tick, the disk is full, or it could not be read back as it was written.
        """
        if not self._lock.is_locked:
            raise RuntimeError("save() on a closed EpisodeWriter")
        encoded = encode(episode, self.embodiment, self.codec) if isinstance(episode, Episode) else episode
        mine, theirs = f"the dataset {self.root}", f"the episode of seed {encoded.seed}"
        self.embodiment.check(encoded.embodiment, mine, theirs, "record it with the dataset's robot")
        self._check_codec(encoded.codec)
        with disk_guard(self.root, f"the episode of seed {encoded.seed} was not saved"):
            self._committed = commit(self.root, self._committed, encoded)
        self._seeds.append(encoded.seed)
        return len(self) - 1

    def _check_codec(self, codec: FrameCodec) -> None:
        if codec != self.codec:
            raise SpecMismatch(
                f"the dataset {self.root} stores frames as {self.codec}, not as {codec}; "
                "choose its codec or give another folder"
            )

    def close(self) -> None:
        """Merge small files and let other writers in.

        Raises:
            RobomemError: there is no room for merging; the dataset stays as it is.
        """
        try:
            with disk_guard(self.root, "its small files were not merged"):
                if self._lock.is_locked and len(self):
                    compact(load_index(self.root))
        finally:
            self._lock.release()

    def __enter__(self) -> Self:
        """The writer."""
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        """Close; after an error leave at once without merging."""
        if kind is None:
            self.close()
        else:
            self._lock.release()


def _refuse_foreign(root: Path) -> None:
    """Raise if the folder holds something else than a dataset, or the rest of an interrupted creation of one."""
    if root.exists() and not root.is_dir():
        raise RobomemError(f"{root} is a file; give a folder for the dataset")
    if is_dataset(root):
        return
    own = {_LOCK, *(Path(name).name + suffix for name in (form.ROBOMEM, form.INFO) for suffix in ("", ".tmp"))}
    foreign = next((path for path in root.rglob("*") if path.is_file() and path.name not in own), None)
    if foreign or (root / form.INFO).exists():
        raise RobomemError(
            f"{root} holds {foreign or form.INFO} and is no dataset of RoboMem; give an empty or a new folder"
        )


def _create(root: Path, embodiment: EmbodimentSpec, codec: FrameCodec, provenance: Mapping[str, Any]) -> None:
    write_json(root / form.ROBOMEM, {"embodiment": embodiment.to_dict(), "provenance": dict(provenance)})
    write_json(root / form.INFO, form.new_info(embodiment, codec))


def _recover(root: Path, embodiment: EmbodimentSpec) -> DatasetIndex:
    """Remove what was never committed and finish an interrupted compaction."""
    index = load_index(root)
    fix = "give another folder, or record with the robot of this one"
    index.embodiment.check(embodiment, f"the dataset {root}", "the new episodes", fix)
    remove_aside(root)
    kept = {file.path for file in index.files} | set(index.episode_files)
    found = [*form.parquet_files(root / form.DATA), *form.parquet_files(root / form.EPISODES), *root.rglob("*.tmp")]
    for path in found:
        if path not in kept:
            path.unlink()
    remove_unnamed(root, index.info, index.episodes)
    if not is_renumbered(index):
        renumber(index, index.episodes)
        index = load_index(root)
    return index
