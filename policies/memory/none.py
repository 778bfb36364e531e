"""No memory: the control of every claim."""

from torch import Tensor

from robomem.policies.memory.base import MemoryModule, State


class NoMemory(MemoryModule):
    """Tokens pass as they are; the policy sees one observation."""

    def init(self, batch: int) -> State:
        """An empty state."""
        del batch
        return {}

    def step(self, state: State, tokens: Tensor, dt: Tensor) -> tuple[Tensor, State]:
        """The same tokens."""
        del dt
        return tokens, state
