"""Memories that answer with a set of tokens: what they share, around one recurrence.

    tokens -> prepared inputs -> recurrence -> read tokens -> integrator -> enriched tokens

Only the recurrence is sequential in time; the rest runs on all ticks at once.
"""

import torch
from jaxtyping import Float
from torch import Tensor, nn

from robomem.policies.memory.base import MemoryModule, State, repeat
from robomem.policies.memory.integrators import MakeIntegrator
from robomem.policies.tokens import Layout


class TokenRecurrence(nn.Module):
    """A recurrence whose every step gives read tokens."""

    def init(self, batch: int) -> State:
        """The state before the first observation."""
        raise NotImplementedError

    def step(
        self, state: State, inputs: Float[Tensor, "B I D"], dt: Float[Tensor, " B"]
    ) -> tuple[Float[Tensor, "B R D"], State]:
        """Read tokens, and the new state; `dt` in seconds."""
        raise NotImplementedError

    def advance(self, state: State, dt: Float[Tensor, " B"]) -> State:
        """Let `dt` seconds pass; recurrences without a clock of their own do nothing."""
        del dt
        return state


class ReadMemory(MemoryModule):
    """A recurrence over observations, whose read tokens an integrator takes into the working tokens."""

    def __init__(
        self, layout: Layout, recurrence: TokenRecurrence, integrator: MakeIntegrator, prepare: nn.Module | None = None
    ) -> None:
        """Assemble; `prepare` makes the recurrence's inputs from the tokens, which by default they are."""
        super().__init__(layout)
        self.prepare = prepare or nn.Identity()
        self.recurrence = recurrence
        self.integrator = integrator(layout)

    def init(self, batch: int) -> State:
        """Of the recurrence."""
        return self.recurrence.init(batch)

    def step(self, state: State, tokens: Tensor, dt: Tensor) -> tuple[Tensor, State]:
        """Recur, then integrate."""
        read, state = self.recurrence.step(state, self.prepare(tokens), dt)
        return self.integrator(tokens, read), state

    def scan(self, state: State, tokens: Tensor, dt: Tensor, valid: Tensor, is_first: Tensor) -> tuple[Tensor, State]:
        """The same as repeated `step`."""
        read, state = repeat(self.recurrence, state, self.prepare(tokens), dt, valid, is_first)
        # Read tokens of zeros say nothing: cheaper than to choose between all of the tokens.
        return self.integrator(tokens, torch.where(valid[..., None, None], read, 0)), state

    def advance(self, state: State, dt: Tensor) -> State:
        """Time passes for the recurrence."""
        return self.recurrence.advance(state, dt)
