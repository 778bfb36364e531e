"""Datasets as others record them: written by LeRobot itself."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

MIKASA_SHAPES = {"observation.images.top": (128, 128, 3), "observation.images.wrist": (128, 128, 3)}
VECTORS = {"observation.state": 7, "action": 7}


def feature(dtype: str, *shape: int, names: Sequence[str] | None = None) -> dict[str, Any]:
    """LeRobot's description of a feature."""
    if dtype in ("image", "video"):
        names = ("height", "width", "channels")
    return {"dtype": dtype, "shape": shape, "names": list(names) if names else None}


MIKASA = {
    **{name: feature("video", *shape) for name, shape in MIKASA_SHAPES.items()},
    **{name: feature("float32", size) for name, size in VECTORS.items()},
}
"""Features of the released MIKASA-Robo-VLA data."""


def frame_values(features: dict[str, Any], episode: int, tick: int) -> dict[str, Any]:
    """What is recorded at a tick: a function of the episode and the tick."""
    rng = np.random.default_rng([episode, tick])
    values: dict[str, Any] = {}
    for name, described in features.items():
        shape = described["shape"]
        if described["dtype"] in ("image", "video"):
            frame = np.full(shape, 20 + 3 * tick, np.uint8)
            frame[: shape[0] // 2] = 50 + 40 * episode
            values[name] = frame
        elif described["dtype"] == "string":
            values[name] = f"do {episode}"
        else:
            values[name] = rng.uniform(-1, 1, shape).astype(described["dtype"])
    return values


def record(root: Path, features: dict[str, Any], lengths: Sequence[int], **settings: Any) -> Path:
    """A dataset of episodes of these lengths, whose instructions alternate between two.

    Args:
        root: Its folder, which must not exist.
        features: LeRobot's descriptions.
        lengths: Ticks of each episode.
        settings: Of `LeRobotDataset.create`; 10 frames per second by default.
    """
    from lerobot.datasets import LeRobotDataset

    videos = any(described["dtype"] == "video" for described in features.values())
    given = {"fps": 10, "use_videos": videos} | settings
    dataset: Any = LeRobotDataset.create("local/foreign", features=features, root=root, **given)
    for episode, length in enumerate(lengths):
        for tick in range(length):
            dataset.add_frame(frame_values(features, episode, tick) | {"task": f"touch cube {episode % 2}"})
        dataset.save_episode()
    dataset.finalize()
    return root
