"""The files of the benchmark's own collectors: `train_data_<n>.npz`, an episode each."""

import re
import zipfile
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy import ndarray

from robomem.datasets.lerobot_index import damaged

SEED, LENGTH = "episode_seed", "episode_length"


def episode_paths(root: Path) -> list[Path]:
    """Files of the episodes in a folder, by their numbers; empty where it is not of this format."""
    numbered = ((re.fullmatch(r"train_data_(\d+)\.npz", path.name), path) for path in root.glob("train_data_*.npz"))
    return [path for _, path in sorted((int(match[1]), path) for match, path in numbered if match)]


def load_arrays(path: Path, names: Sequence[str] | None = None) -> dict[str, ndarray]:
    """Arrays of one episode by name, all by default.

    Raises:
        RobomemError: the file is damaged, has no such array, or holds objects instead of numbers and texts.
    """
    try:
        with np.load(path, allow_pickle=False) as file:
            return {name: file[name] for name in (file.files if names is None else names)}
    except (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile) as error:
        raise damaged(path, error) from error
