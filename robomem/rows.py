"""Rows of a batch as values of their own, and a policy run row by row."""

from collections.abc import Sequence

import torch
from jaxtyping import Float
from torch import Tensor, nn

from robomem.contract import ActionChunk, Memory, Observation, Policy, Prefix, Window
from robomem.spec import PolicySpec


def split(memory: Memory) -> list[Memory]:
    """The memory of each row, as memories of one row."""
    rows = len(next(iter((*memory.working.values(), *memory.state.values()))))
    return [memory.map(lambda tensor, row=row: tensor[row : row + 1]) for row in range(rows)]


def join(memories: Sequence[Memory]) -> Memory:
    """One memory with the rows of all, in order."""
    if len(memories) == 1:
        return memories[0]
    return Memory(
        {name: torch.cat([m.working[name] for m in memories]) for name in memories[0].working},
        {name: torch.cat([m.state[name] for m in memories]) for name in memories[0].state},
    )


def select(observation: Observation, rows: Sequence[int]) -> Observation:
    """Some rows of a batched observation."""
    index = torch.as_tensor(rows, device=observation.proprio.device)
    images = {name: image[index] for name, image in observation.images.items()}
    return Observation(images, observation.proprio[index], tuple(observation.instruction[row] for row in rows))


def device_of(policy: Policy) -> torch.device:
    """Where a policy's memory lives."""
    memory = policy.init_memory(1)
    return next(iter((*memory.working.values(), *memory.state.values()))).device


class PerRow(nn.Module):
    """A policy that handles the rows of a batch one at a time.

    Batched kernels round differently for each batch size; this way a row's result depends on the row alone.
    """

    def __init__(self, policy: Policy) -> None:
        """Wrap a policy."""
        super().__init__()
        self.policy = policy

    @property
    def spec(self) -> PolicySpec:
        """The policy's own."""
        return self.policy.spec

    def init_memory(self, batch_size: int) -> Memory:
        """See `Policy.init_memory`."""
        return self.policy.init_memory(batch_size)

    def observe(self, memory: Memory, observation: Observation, dt: Float[Tensor, " B"]) -> Memory:
        """See `Policy.observe`."""
        return join(
            [
                self.policy.observe(one, select(observation, [row]), dt[row : row + 1])
                for row, one in enumerate(split(memory))
            ]
        )

    def plan(self, memory: Memory, noise: Float[Tensor, "B H A"], prefix: Prefix | None = None) -> ActionChunk:
        """See `Policy.plan`."""
        rows = [slice(row, row + 1) for row in range(len(noise))]
        given = [Prefix(prefix.actions[row], prefix.weight[row]) if prefix else None for row in rows]
        chunks = [
            self.policy.plan(one, noise[row], ahead) for one, row, ahead in zip(split(memory), rows, given, strict=True)
        ]
        return ActionChunk(torch.cat([chunk.actions for chunk in chunks]))

    def loss(self, window: Window, memory: Memory) -> tuple[dict[str, Tensor], Memory]:
        """See `Policy.loss`; batched as it is."""
        return self.policy.loss(window, memory)
