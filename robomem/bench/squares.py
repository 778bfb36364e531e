"""Synthetic recordings for benchmarks: a red square that moves over a textured table, seen by two cameras."""

from collections.abc import Iterator

import numpy as np
from jaxtyping import Float, UInt8
from numpy import ndarray

from robomem.episode import Episode
from robomem.spec import CameraSpec, EmbodimentSpec, VectorSpec

FPS, SIDE, CAMERAS, NUMBERS = 20, 128, ("top", "wrist"), 7
TASK = "follow the square"


def embodiment() -> EmbodimentSpec:
    """The robot that follows the square."""
    vector = VectorSpec(
        names=tuple(f"q{i}" for i in range(NUMBERS)),
        units=("rad",) * NUMBERS,
        frame="joints",
        low=(-10.0,) * NUMBERS,
        high=(10.0,) * NUMBERS,
    )
    cameras = tuple(CameraSpec(name=name, height=SIDE, width=SIDE) for name in CAMERAS)
    return EmbodimentSpec(cameras=cameras, proprio=vector, action=vector, action_dt=1 / FPS)


def frames(rng: np.random.Generator, ticks: int) -> dict[str, UInt8[ndarray, "T Y X 3"]]:
    """What the cameras see of one episode."""
    table = {name: rng.integers(90, 130, (SIDE, SIDE, 3), np.uint8) for name in CAMERAS}
    images = {name: np.repeat(texture[None], ticks, axis=0) for name, texture in table.items()}
    path = np.cumsum(rng.integers(-2, 3, (ticks, 2)), axis=0) + SIDE // 2
    for tick, (y, x) in enumerate(path.clip(0, SIDE - 24)):
        for pixels in images.values():
            pixels[tick, y : y + 24, x : x + 24] = (200, 30, 30)
    return images


def numbers(rng: np.random.Generator, ticks: int) -> Float[ndarray, "T N"]:
    """State or actions of one episode."""
    return rng.normal(size=(ticks, NUMBERS)).clip(-10, 10).astype(np.float32)


def episodes(count: int, ticks: int) -> Iterator[Episode]:
    """Recordings of the robot, each a function of its number."""
    for seed in range(count):
        rng = np.random.default_rng(seed)
        yield Episode(
            images=frames(rng, ticks),
            proprio=numbers(rng, ticks),
            actions=numbers(rng, ticks),
            timestamps=np.arange(ticks) / FPS,
            reward=np.zeros(ticks, np.float32),
            success=np.zeros(ticks, np.bool_),
            instruction=TASK,
            seed=seed,
        )
