"""A real policy and real data, as small as they can be."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor, nn

from robomem.contract import ActionChunk, Memory, Observation, Prefix, Window, reset
from robomem.datasets.lerobot_writer import EpisodeWriter
from robomem.episode import Episode
from robomem.spec import CameraSpec, EmbodimentSpec, PolicySpec, VectorSpec
from robomem.statistics import Statistics, VectorStatistics

CONFIG = {"name": "tiny", "horizon": 3, "hidden": 8, "noise": 0.1}


class TinyPolicy(nn.Module):
    """Mean colours and proprioception -> GRU -> linear L1 head; its training draws noise."""

    mean: Tensor
    std: Tensor

    def __init__(self, spec: PolicySpec, statistics: Statistics, hidden: int, noise: float) -> None:
        super().__init__()
        self.spec, self.hidden, self.noise = spec, hidden, noise
        self.cell = nn.GRUCell(3 * len(spec.cameras) + spec.proprio.size + 1, hidden)
        self.head = nn.Linear(hidden, spec.horizon * spec.action.size)
        self.register_buffer("mean", torch.tensor(statistics.proprio.mean, dtype=torch.float32))
        self.register_buffer("std", torch.tensor(statistics.proprio.std, dtype=torch.float32).clamp(min=1e-6))

    def init_memory(self, batch_size: int) -> Memory:
        zeros = torch.zeros(batch_size, self.hidden, device=self.head.weight.device)
        return Memory({"hidden": zeros}, {"age": zeros[:, :1]})

    def observe(self, memory: Memory, observation: Observation, dt: Float[Tensor, " B"]) -> Memory:
        colours = [image.float().mean((1, 2)) / 255 for _, image in sorted(observation.images.items())]
        proprio = (observation.proprio - self.mean) / self.std
        hidden = self.cell(torch.cat([*colours, proprio, dt[:, None]], -1), memory.working["hidden"])
        return Memory({"hidden": hidden}, {"age": memory.state["age"] + dt[:, None]})

    def plan(self, memory: Memory, noise: Float[Tensor, "B H A"], prefix: Prefix | None = None) -> ActionChunk:
        mean = self.head(memory.working["hidden"]).unflatten(-1, (self.spec.horizon, self.spec.action.size))
        actions = mean + self.noise * noise
        return ActionChunk(prefix.pull(actions) if prefix else actions)

    def loss(self, window: Window, memory: Memory) -> tuple[dict[str, Tensor], Memory]:
        terms, ticks = [], window.valid.shape[1]
        for tick in range(ticks):
            memory = reset(self, memory, window.is_first[:, tick])
            images = {name: image[:, tick] for name, image in window.observation.images.items()}
            seen = Observation(images, window.observation.proprio[:, tick], window.observation.instruction[tick::ticks])
            memory = memory.where(window.valid[:, tick], self.observe(memory, seen, window.dt[:, tick]))
            target = window.actions[:, tick]
            error = (self.plan(memory, torch.randn_like(target)).actions - target).abs().mean(-1)
            terms.append((error * window.action_valid[:, tick]).sum())
        count = window.action_valid.sum().clamp(min=1)
        return {"l1": torch.stack(terms).sum() / count, "decay": 1e-3 * self.head.weight.square().mean()}, memory


def build_tiny(config: Mapping[str, Any], spec: PolicySpec, statistics: Statistics) -> TinyPolicy:
    """A `TinyPolicy`, as `robomem.policies.build.build_policy` builds the product's."""
    return TinyPolicy(spec, statistics, hidden=config["hidden"], noise=config["noise"])


def vector(prefix: str, size: int, frame: str = "joints") -> VectorSpec:
    """A vector of `size` joints."""
    limits = (1.0,) * size
    return VectorSpec(
        names=tuple(f"{prefix}{i}" for i in range(size)),
        units=("rad",) * size,
        frame=frame,
        low=tuple(-x for x in limits),
        high=limits,
    )


EMBODIMENT = EmbodimentSpec(
    cameras=(CameraSpec(name="base", height=16, width=16), CameraSpec(name="hand", height=16, width=16)),
    proprio=vector("q", 4),
    action=vector("a", 2),
    action_dt=0.05,
)
STATISTICS = Statistics(
    proprio=VectorStatistics(mean=(0.1,) * 4, std=(0.9,) * 4, low=(-1.0,) * 4, high=(1.0,) * 4),
    action=VectorStatistics(mean=(0.0,) * 2, std=(1.0,) * 2, low=(-1.0,) * 2, high=(1.0,) * 2),
    ticks=100,
)


def tiny_spec(embodiment: EmbodimentSpec = EMBODIMENT, statistics: Statistics = STATISTICS) -> PolicySpec:
    """The contract of a `TinyPolicy`."""
    parts = {name: getattr(embodiment, name) for name in ("cameras", "proprio", "action", "action_dt")}
    return PolicySpec(
        **parts,
        horizon=CONFIG["horizon"],
        observe_period=embodiment.action_dt,
        max_gap=1.0,
        statistics_hash=statistics.digest,
    )


def tiny_episode(seed: int) -> Episode:
    """An episode of 4 to 8 ticks whose actions follow from the first frame's colour."""
    rng = np.random.default_rng(seed)
    ticks = 4 + seed % 5
    images = {
        camera.name: np.full((ticks, camera.height, camera.width, 3), 40 + 60 * (seed % 3), np.uint8)
        for camera in EMBODIMENT.cameras
    }
    return Episode(
        images=images,
        proprio=rng.normal(size=(ticks, 4)).astype(np.float32),
        actions=np.full((ticks, 2), seed % 3 - 1, np.float32),
        timestamps=0.05 * np.arange(ticks),
        reward=np.zeros(ticks, np.float32),
        success=np.arange(ticks) == ticks - 1,
        instruction="touch the cube",
        seed=seed,
        provenance={"renderer": "none"},
    )


def write_tiny_dataset(root: Path, episodes: int = 8, first_seed: int = 0) -> Path:
    """A dataset of `tiny_episode`s, written by the real writer."""
    with EpisodeWriter(root, EMBODIMENT) as writer:
        for seed in range(first_seed, first_seed + episodes):
            writer.save(tiny_episode(seed))
    return root
