"""Reads whole episodes of an RLDS dataset by a schema mapping; TensorFlow decodes them in its own process."""

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from numpy import ndarray

from robomem.datasets import rlds_format as form
from robomem.datasets.assembly import assemble_vectors, freeze, vector_fields
from robomem.datasets.cached import CachedEpisodes, choose_episodes
from robomem.datasets.mapping import SchemaMapping
from robomem.datasets.rlds_index import load_index
from robomem.datasets.rlds_process import tensorflow_process
from robomem.datasets.rlds_schema import camera_specs, check_fields
from robomem.episode import Episode
from robomem.errors import NonFiniteError, RobomemError
from robomem.spec import CameraSpec, EmbodimentSpec


class RldsSource(CachedEpisodes):
    """Episodes of a TFDS dataset in the order of its shards, or a subset of them; their arrays are read-only.

    Every step of an episode is a tick. In a dataset that RoboMem wrote, time, reward, success, seed and provenance are
    the recorded ones; elsewhere they follow from the mapping, and the provenance of an episode is its metadata.
    """

    def __init__(
        self,
        root: Path | str,
        mapping: SchemaMapping | None = None,
        episodes: Sequence[int] | None = None,
        cache_bytes: int = 0,
        *,
        split: str = "train",
    ) -> None:
        """Open a dataset; the first time, all of it is read once to find its episodes.

        Args:
            root: The folder of its version, or one that holds it alone.
            mapping: The meaning of its fields; only a dataset that RoboMem wrote needs none.
            episodes: Indices of the episodes to read, in this order; all by default.
            cache_bytes: Decoded episodes kept in memory, the least recently used leaving first.
            split: Which of its splits.

        Raises:
            RobomemError: no dataset, split or episode, a file that is missing or damaged, or a field that is missing
                or differs from the mapping.
        """
        self._folder = form.version_folder(Path(root))
        self._recorded = form.load_recorded(self._folder)
        self._mapping = self._resolve(mapping)
        success = self._mapping.success if isinstance(self._mapping.success, str) else None
        self._index = load_index(
            self._folder, split, self._mapping.action.keys[0], success, form.SEED if self._recorded else None
        )
        check_fields(self._index, self._mapping)
        super().__init__(choose_episodes(self._folder, len(self._index.records), episodes), cache_bytes)
        self._period = self._mapping.period or (self._recorded.embodiment.action_dt if self._recorded else 0)
        if not self._period:
            raise RobomemError(
                f"{self._folder} does not tell the time between ticks; set period in {self._mapping.name}"
            )
        self._embodiment = EmbodimentSpec(
            cameras=camera_specs(self._index, self._mapping, self._frame_shape),
            proprio=self._mapping.proprio.spec,
            action=self._mapping.action.spec,
            action_dt=self._period,
        )

    @property
    def embodiment(self) -> EmbodimentSpec:
        """The robot that the episodes were recorded with."""
        return self._embodiment

    @property
    def provenance(self) -> dict[str, Any]:
        """JSON values that describe the dataset as a whole."""
        if self._recorded:
            return self._recorded.provenance
        return {"dataset": f"{self._index.name}:{self._index.version}", "mapping": self._mapping.name}

    @property
    def lengths(self) -> tuple[int, ...]:
        """Ticks of each episode."""
        return tuple(self._index.records[i].ticks for i in self.indices)

    @property
    def seeds(self) -> tuple[int, ...]:
        """Seed of each episode; its index where the dataset knows none."""
        return tuple(self._seed(i) for i in self.indices)

    @property
    def successes(self) -> tuple[bool, ...]:
        """Whether each episode reached success at any tick."""
        found = (self._index.records[i].success for i in self.indices)
        return tuple(bool(self._mapping.success if success is None else success) for success in found)

    def _resolve(self, mapping: SchemaMapping | None) -> SchemaMapping:
        if mapping is None:
            if self._recorded is None:
                raise RobomemError(f"{self._folder} was not written by RoboMem; give a mapping of its fields")
            return self._recorded.mapping
        if mapping.format != "rlds":
            raise RobomemError(f"the mapping {mapping.name} is for {mapping.format}, {self._folder} is in rlds")
        if self._recorded is None:
            return mapping
        return replace(mapping, timestamps=form.CAPTURE_TIME, reward=form.REWARD, success=form.SUCCESS)

    def _seed(self, index: int) -> int:
        seed = self._index.records[index].seed
        return index if seed is None else seed

    def _frame_shape(self, field: str) -> tuple[int, ...]:
        """Shape of the first frame, for datasets that do not tell it."""
        _, values = self._fetch(self.indices[0], [field], [])
        return values[field].shape[1:]

    def _fetch(self, index: int, steps: list[str], episode: list[str]) -> tuple[dict[str, Any], dict[str, Any]]:
        """Fields of an episode's metadata, then those of its steps; lists of texts or arrays, by their paths."""
        record = self._index.records[index]
        texts, arrays = tensorflow_process().call(
            self._folder,
            "read",
            folder=str(self._folder),
            path=str(self._index.shards[record.shard]),
            offset=record.offset,
            steps=steps,
            episode=episode,
        )
        values: dict[str, Any] = {**texts, **arrays}
        inner = {path.removeprefix(f"{form.STEPS}/"): v for path, v in values.items() if path.startswith(form.STEPS)}
        outer = {
            path.removeprefix(f"{form.EPISODE}/"): v for path, v in values.items() if path.startswith(form.EPISODE)
        }
        return outer, inner

    def _read(self, position: int, cameras: Sequence[CameraSpec]) -> Episode:
        mapping, index = self._mapping, self.indices[position]
        path = self._index.shards[self._index.records[index].shard]
        frames = {camera.name: mapping.cameras[camera.name] for camera in cameras}
        fields = [*frames.values(), *vector_fields(mapping), mapping.instruction]
        about, values = self._fetch(index, list(dict.fromkeys(fields)), self._episode_fields)
        episode = Episode(
            images={name: freeze(values[field]) for name, field in frames.items()},
            **assemble_vectors(mapping, values, len(values[mapping.action.keys[0]]), self._period),
            instruction=_instruction(values[mapping.instruction], index, path),
            seed=self._seed(index),
            provenance=_provenance(about[form.PROVENANCE], path) if self._recorded else _plain(about),
        )
        try:
            episode.check(replace(self._embodiment, cameras=tuple(cameras)))
        except NonFiniteError as error:
            raise form.damaged(path, error) from error
        return episode

    @property
    def _episode_fields(self) -> list[str]:
        """What is read of an episode's metadata."""
        if self._recorded:
            return [form.PROVENANCE]
        return [path for path, (shape, _) in self._index.episode.items() if not shape]


def _instruction(texts: Sequence[str], index: int, path: Path) -> str:
    """The one text of all ticks."""
    other = next((tick for tick, text in enumerate(texts) if text != texts[0]), None)
    if other is not None:
        raise RobomemError(
            f"episode {index} of {path} changes its instruction at tick {other} from {texts[0]!r} to {texts[other]!r}; "
            "leave it out, or split it there"
        )
    return texts[0]


def _provenance(text: str, path: Path) -> dict[str, Any]:
    try:
        return dict(json.loads(text))
    except (TypeError, ValueError) as error:
        raise form.damaged(path, error) from error


def _plain(values: dict[str, Any]) -> dict[str, Any]:
    """Texts, and numbers as Python's own."""
    return {name: value.item() if isinstance(value, ndarray) else value for name, value in values.items()}
