"""Memories whose state is a vector or a matrix: what they share, around one recurrent cell.

    tokens -> pooled inputs -> cell -> features -> read tokens -> integrator -> enriched tokens

Only the cell is sequential in time; the rest runs on all ticks at once. A cell is one file with one class.
"""

from collections.abc import Callable

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn
from torch.nn import functional

from robomem.policies.memory.base import MemoryModule, State, repeat
from robomem.policies.memory.integrators import ContextTokens, MakeIntegrator
from robomem.policies.tokens import Layout

TICK = 0.05
"""Seconds that an observation counts for when the measured time is not used: one at 20 Hz."""

TIME_SCALES = (0.05, 300.0)
"""Seconds that cells can remember for to begin with, from one tick to a long task."""


class Cell(nn.Module):
    """A recurrence over input vectors, in float32, whose state starts at zero."""

    features: int
    """F: size of what a step gives."""

    def init(self, batch: int) -> State:
        """The state before the first observation: zeros."""
        raise NotImplementedError

    def step(
        self, state: State, inputs: Float[Tensor, "B I"], dt: Float[Tensor, " B"]
    ) -> tuple[Float[Tensor, "B F"], State]:
        """Fold in one input, `dt` seconds after the previous one."""
        raise NotImplementedError

    def scan(
        self,
        state: State,
        inputs: Float[Tensor, "B T I"],
        dt: Float[Tensor, "B T"],
        valid: Bool[Tensor, "B T"],
        is_first: Bool[Tensor, "B T"],
    ) -> tuple[Float[Tensor, "B T F"], State]:
        """The same as T steps; see `MemoryModule.scan`."""
        return repeat(self, state, inputs, dt, valid, is_first)

    def advance(self, state: State, dt: Float[Tensor, " B"]) -> State:
        """Let `dt` seconds pass; cells without a clock of their own do nothing."""
        del dt
        return state


class RecurrentMemory(MemoryModule):
    """A cell that sees pooled tokens, and whose features are read by every token.

    Pooling and cell are float32 whatever the autocast: bfloat16 rounds a decay of 0.999 to 1.
    """

    places: Tensor
    """Of all tokens in the image; zeros for the cognition token."""

    def __init__(
        self,
        layout: Layout,
        *,
        cell: Callable[[int], Cell],
        integrator: MakeIntegrator = ContextTokens,
        queries: int = 4,
        reads: int = 4,
        time: bool = True,
    ) -> None:
        """Build around a cell.

        Args:
            layout: Of the working tokens.
            cell: Makes the cell for a number of inputs.
            integrator: How what is read enters the tokens.
            queries: Learned queries that pool the tokens.
            reads: R, read tokens made of the cell's features.
            time: Use the measured time; otherwise every observation counts for `TICK` seconds, the control of whether
                time matters.
        """
        super().__init__(layout)
        size = queries * (self.channels + 2) + self.channels
        self.queries = nn.Parameter(torch.randn(queries, self.channels) / self.channels**0.5)
        self.register_buffer("places", functional.pad(layout.grid(), (0, 0, 0, 1)), persistent=False)
        self.norm = nn.LayerNorm(size)
        self.cell = cell(size)
        features = self.cell.features
        self.read = nn.Sequential(nn.Linear(features, features), nn.GELU(), nn.Linear(features, reads * self.channels))
        self.integrator = integrator(layout)
        self.time = time

    def init(self, batch: int) -> State:
        """Of the cell."""
        return self.cell.init(batch)

    def step(self, state: State, tokens: Tensor, dt: Tensor) -> tuple[Tensor, State]:
        """One update of the cell, then a read."""
        with torch.autocast(tokens.device.type, enabled=False):
            features, state = self.cell.step(state, self._pool(tokens.float()), self._elapsed(dt))
        return self.integrator(tokens, self._read(features)), state

    def scan(self, state: State, tokens: Tensor, dt: Tensor, valid: Tensor, is_first: Tensor) -> tuple[Tensor, State]:
        """The same as repeated `step`, as far as the cell can at once."""
        features, state = self._recur(state, tokens, dt, valid, is_first)
        # Read tokens of zeros say nothing: cheaper than to choose between all of the tokens.
        return self.integrator(tokens, torch.where(valid[..., None, None], self._read(features), 0)), state

    def fold(self, state: State, tokens: Tensor, dt: Tensor, valid: Tensor, is_first: Tensor) -> State:
        """The same state without a read."""
        return self._recur(state, tokens, dt, valid, is_first)[1]

    def advance(self, state: State, dt: Tensor) -> State:
        """Time passes for the cell."""
        return self.cell.advance(state, dt) if self.time else state

    def _recur(
        self, state: State, tokens: Tensor, dt: Tensor, valid: Tensor, is_first: Tensor
    ) -> tuple[Float[Tensor, "B T F"], State]:
        """Features of all ticks."""
        with torch.autocast(tokens.device.type, enabled=False):
            return self.cell.scan(state, self._pool(tokens.float()), self._elapsed(dt), valid, is_first)

    def _elapsed(self, dt: Float[Tensor, "*B"]) -> Float[Tensor, "*B"]:
        return dt if self.time else torch.full_like(dt, TICK)

    def _pool(self, tokens: Float[Tensor, "*B N D"]) -> Float[Tensor, "*B I"]:
        """What each query looks at and where in the image that is, and the cognition token."""
        shares = (tokens @ self.queries.T).softmax(-2).transpose(-1, -2)
        seen = torch.cat([shares @ tokens, shares @ self.places], dim=-1)
        return self.norm(torch.cat([seen.flatten(-2), self.layout.cognitive(tokens)], dim=-1))

    def _read(self, features: Float[Tensor, "*B F"]) -> Float[Tensor, "*B R D"]:
        return self.read(features).unflatten(-1, (-1, self.channels))


def spread(channels: int) -> Float[Tensor, " channels"]:
    """Time scales in seconds, log-uniform over `TIME_SCALES`, the shortest first."""
    shortest, longest = (torch.tensor(scale).log() for scale in TIME_SCALES)
    return torch.lerp(shortest, longest, (torch.arange(channels) + 0.5) / channels).exp()


def keep_logits(channels: int) -> Float[Tensor, " channels"]:
    """Biases of gates that keep a channel at each tick, so that it lasts for the time scale of `spread`.

    Gates that start half open forget all in a few ticks, and nothing that matters later is learned (the chrono
    initialisation of arXiv 1804.11188).
    """
    return -torch.expm1(TICK / spread(channels)).log()
