"""Small episodes that are a function of their seed; run as a script it records without end, to be killed."""

import sys
from pathlib import Path

import numpy as np

from robomem.datasets.config import FrameCodec
from robomem.datasets.lerobot_writer import EpisodeWriter
from robomem.episode import Episode
from robomem.spec import CameraSpec, EmbodimentSpec, VectorSpec


def vector_spec(prefix: str, size: int) -> VectorSpec:
    """A specification of `size` joints."""
    return VectorSpec(
        names=tuple(f"{prefix}{i}" for i in range(size)),
        units=("rad",) * size,
        frame="joints",
        low=(-1.0,) * size,
        high=(1.0,) * size,
    )


EMBODIMENT = EmbodimentSpec(
    cameras=(CameraSpec(name="base", height=8, width=12), CameraSpec(name="hand", height=10, width=10)),
    proprio=vector_spec("q", 5),
    action=vector_spec("a", 3),
    action_dt=0.05,
)


def make_episode(seed: int, ticks: int | None = None) -> Episode:
    """An episode of `ticks` (by default 3 to 7) ticks with measured, uneven times after the first second."""
    ticks = 3 + seed % 5 if ticks is None else ticks
    rng = np.random.default_rng(seed)
    return Episode(
        images={
            camera.name: rng.integers(0, 256, (ticks, camera.height, camera.width, 3), dtype=np.uint8)
            for camera in EMBODIMENT.cameras
        },
        proprio=rng.normal(size=(ticks, 5)).astype(np.float32),
        actions=rng.normal(size=(ticks, 3)).astype(np.float32),
        timestamps=0.05 * np.arange(ticks) + np.sort(rng.uniform(0, 0.01, ticks)),
        reward=rng.random(ticks).astype(np.float32),
        success=np.arange(ticks) == ticks - 1,
        instruction=f"pick the {('red', 'green', 'blue')[seed % 3]} cube",
        seed=seed,
        provenance={"renderer": "exact", "noise": 0.1 * (seed % 2)},
    )


def assert_equal_episodes(found: Episode, expected: Episode) -> None:
    """Every field is the same, bit for bit."""
    assert dict(found.provenance) == dict(expected.provenance)
    assert (found.seed, found.instruction) == (expected.seed, expected.instruction)
    assert list(found.images) == list(expected.images)
    for name, frames in expected.images.items():
        np.testing.assert_array_equal(found.images[name], frames, strict=True)
    for name in ("proprio", "actions", "timestamps", "reward", "success"):
        np.testing.assert_array_equal(getattr(found, name), getattr(expected, name), strict=True)


def record_forever(root: Path, codec: FrameCodec) -> None:
    """Save episode after episode, closing (and so merging) after every fourth; print each seed once it is saved."""
    while True:
        with EpisodeWriter(root, EMBODIMENT, codec=codec) as writer:
            for seed in range(len(writer), len(writer) + 4):
                writer.save(make_episode(seed))
                print(seed, flush=True)  # noqa: T201


if __name__ == "__main__":
    record_forever(Path(sys.argv[1]), FrameCodec(codec=sys.argv[2]))
