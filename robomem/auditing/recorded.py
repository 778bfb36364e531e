"""The recorded episodes that an audit measures."""

import hashlib
import json
from collections.abc import Sequence

from robomem.contract import Window
from robomem.episode import Episode
from robomem.errors import RobomemError

GROUP = 8
"""Episodes that are replayed side by side."""


class Recorded:
    """The first episodes of a dataset of the audited task."""

    def __init__(self, root: str, most: int, env_id: str, mapping: str = "auto") -> None:
        """Open the dataset.

        Args:
            root: Its folder.
            most: Episodes to take at most.
            env_id: The task it must be of, if it tells its task.
            mapping: What its fields mean; see `open_source`.

        Raises:
            RobomemError: no such dataset, or it is of another task; both are named.
        """
        from robomem.datasets.open import open_source

        whole = open_source(root, mapping=mapping)
        self._root, self._mapping = root, mapping
        self.reader = open_source(root, range(min(len(whole), most)), mapping=mapping)
        found = self.reader.provenance.get("env_id", env_id)
        if found != env_id:
            raise RobomemError(f"the dataset {root} is of {found}, the audit of {env_id}; give another dataset=")

    @property
    def digest(self) -> str:
        """Hash of the seeds and lengths of the episodes."""
        return hashlib.sha256(json.dumps([self.reader.seeds, self.reader.lengths]).encode()).hexdigest()[:16]

    def first(self, count: int) -> list[Episode]:
        """The first episodes, with distinct seeds."""
        positions: dict[int, int] = {}
        for position, seed in enumerate(self.reader.seeds):
            positions.setdefault(seed, position)
        return self.read(list(positions.values())[:count])

    def groups(self) -> list[range]:
        """Positions of all episodes, some at a time."""
        return [range(start, min(start + GROUP, len(self.reader))) for start in range(0, len(self.reader), GROUP)]

    def read(self, positions: Sequence[int]) -> list[Episode]:
        """The episodes at some positions."""
        return [self.reader[position] for position in positions]

    def window(self, count: int, horizon: int) -> Window:
        """One training window of the first episodes, each from beginning to end."""
        from robomem.datasets.open import open_source
        from robomem.datasets.sequences import SequenceBatches

        reader = open_source(self._root, self.reader.indices[:count], mapping=self._mapping)
        windows = SequenceBatches(reader, len(reader), max(reader.lengths), horizon, seed=0)
        return next(windows.epoch(0))
