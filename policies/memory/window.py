"""The last few observations with their ages: the frame stack."""

import torch
from torch import Tensor

from robomem.policies.memory.base import MemoryModule, State
from robomem.policies.memory.reader import Entries, EntryReader
from robomem.policies.tokens import Layout


class Window(MemoryModule):
    """Keeps the patches of the last `length` observations, read by cross-attention; older ones are gone."""

    def __init__(self, layout: Layout, *, length: int = 8, heads: int = 2) -> None:
        """Build the reader of a window of `length` observations."""
        super().__init__(layout)
        self.length = length
        self.reader = EntryReader(self.channels, layout.patches, heads, layout.appearance)

    def init(self, batch: int) -> State:
        """Nothing seen."""
        weight = self.reader.out.weight
        return {
            "patches": weight.new_zeros(batch, self.length, self.layout.patches, self.channels),
            "age": torch.zeros(batch, self.length, device=weight.device),
            "seen": torch.zeros(batch, self.length, dtype=torch.bool, device=weight.device),
        }

    def step(self, state: State, tokens: Tensor, dt: Tensor) -> tuple[Tensor, State]:
        """Read the window, then push the new observation in at the front."""
        state = self.advance(state, dt)
        patches = self.layout.perceptual(tokens)
        read, _ = self.reader(patches, Entries(state["patches"], state["age"], state["seen"]))
        front = {
            "patches": patches.to(state["patches"].dtype),
            "age": torch.zeros_like(dt),
            "seen": torch.ones_like(dt, dtype=torch.bool),
        }
        state = {name: torch.cat([front[name][:, None], value[:, :-1]], dim=1) for name, value in state.items()}
        return torch.cat([patches + read, self.layout.cognitive(tokens)[:, None]], dim=1), state

    def advance(self, state: State, dt: Tensor) -> State:
        """The observations grow older."""
        return {**state, "age": torch.where(state["seen"], state["age"] + dt[:, None], 0.0)}

    def diagnostics(self, state: State, tokens: Tensor) -> dict[str, Tensor]:
        """Attention of the patches to each observation, and the ages (NaN: not there yet)."""
        patches = self.layout.perceptual(tokens)
        entries = Entries(state["patches"], state["age"], state["seen"])
        ages = state["age"].where(state["seen"], torch.nan)
        return {"attention": self.reader.weights(patches, entries).mean(1), "age": ages}
