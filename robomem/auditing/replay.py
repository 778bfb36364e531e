"""Feed recorded episodes to a policy, side by side: the memories that it would have had."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch

from robomem.contract import Memory, Observation, Policy
from robomem.episode import Episode
from robomem.rollout import Intervention
from robomem.rows import device_of, join, split


@dataclass(frozen=True)
class Moment:
    """One tick of the episodes that have not ended."""

    tick: int
    rows: tuple[int, ...]
    """Which of the episodes."""
    observation: Observation
    memory: Memory
    """After the observation; one row per entry of `rows`."""


def replay(policy: Policy, episodes: Sequence[Episode], intervene: Intervention | None = None) -> Iterator[Moment]:
    """Every tick of some episodes in order; `intervene` acts on the memory of a row before each observation."""
    device = device_of(policy)
    memories = dict(enumerate(_split_inference(policy, len(episodes))))
    for tick in range(max(map(len, episodes))):
        rows = tuple(row for row, episode in enumerate(episodes) if tick < len(episode))
        observation = _observation([episodes[row] for row in rows], tick).to(device)
        with torch.inference_mode():
            if intervene:
                for row in rows:
                    memories[row] = intervene(memories[row], episodes[row].seed, tick)
            dt = torch.tensor([_elapsed(episodes[row], tick) for row in rows], dtype=torch.float32, device=device)
            memory = policy.observe(join([memories[row] for row in rows]), observation, dt)
            memories = dict(zip(rows, split(memory), strict=True))
        yield Moment(tick, rows, observation, memory)


@torch.inference_mode()
def _split_inference(policy: Policy, rows: int) -> list[Memory]:
    return split(policy.init_memory(rows))


def _observation(episodes: Sequence[Episode], tick: int) -> Observation:
    images = {
        name: torch.from_numpy(np.stack([episode.images[name][tick] for episode in episodes]))
        for name in episodes[0].images
    }
    proprio = torch.from_numpy(np.stack([episode.proprio[tick] for episode in episodes]))
    return Observation(images, proprio, tuple(episode.instruction for episode in episodes))


def _elapsed(episode: Episode, tick: int) -> float:
    return float(episode.timestamps[tick] - episode.timestamps[tick - 1]) if tick else 0.0
