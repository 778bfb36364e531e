"""The protocol of memory modules, and what they share.

A module is a function over an explicit state: a mapping of batch-first tensors whose shapes never depend on time.
Subclasses write `init` and `step`; `scan` repeats `step` and may be replaced by something faster with the same result.
"""

from collections.abc import Mapping
from typing import Protocol, runtime_checkable

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from robomem.policies.tokens import Layout

State = Mapping[str, Tensor]


class MemoryModule(nn.Module):
    """What a policy remembers beyond the newest observation."""

    def __init__(self, layout: Layout) -> None:
        """Remember tokens of a layout."""
        super().__init__()
        self.layout = layout

    @property
    def channels(self) -> int:
        """D."""
        return self.layout.channels

    def init(self, batch: int) -> State:
        """The state before the first observation."""
        raise NotImplementedError

    def step(
        self, state: State, tokens: Float[Tensor, "B N D"], dt: Float[Tensor, " B"]
    ) -> tuple[Float[Tensor, "B N D"], State]:
        """Fold in one observation.

        Args:
            state: What is remembered.
            tokens: Working tokens of the new observation.
            dt: Seconds since the previous one.

        Returns:
            The working tokens enriched by what is remembered, and the new state.
        """
        raise NotImplementedError

    def scan(
        self,
        state: State,
        tokens: Float[Tensor, "B T N D"],
        dt: Float[Tensor, "B T"],
        valid: Bool[Tensor, "B T"],
        is_first: Bool[Tensor, "B T"],
    ) -> tuple[Float[Tensor, "B T N D"], State]:
        """Fold in T observations in order; the same as T times `step`.

        Rows start anew where `is_first`; a tick that is not `valid` changes nothing (its tokens come back as they are).
        """
        enriched, state = repeat(self, state, tokens, dt, valid, is_first)
        return torch.where(valid[..., None, None], enriched, tokens), state

    def fold(
        self,
        state: State,
        tokens: Float[Tensor, "B T N D"],
        dt: Float[Tensor, "B T"],
        valid: Bool[Tensor, "B T"],
        is_first: Bool[Tensor, "B T"],
    ) -> State:
        """The state that `scan` gives, for when nobody asks what the tokens become; cheaper where reading is not."""
        return self.scan(state, tokens, dt, valid, is_first)[1]

    def advance(self, state: State, dt: Float[Tensor, " B"]) -> State:
        """Let `dt` seconds pass without an observation; modules without a clock of their own do nothing."""
        del dt
        return state

    def diagnostics(self, state: State, tokens: Float[Tensor, "B N D"]) -> dict[str, Tensor]:
        """What a reader would look at, (B, ...) each; nothing by default."""
        del state, tokens
        return {}


@runtime_checkable
class Recurrence(Protocol):
    """What can be repeated along time."""

    def init(self, batch: int) -> State:
        """The state before the first input."""
        ...

    def step(self, state: State, inputs: Tensor, dt: Tensor, /) -> tuple[Tensor, State]:
        """An output, and the new state."""
        ...


def repeat(
    recurrence: Recurrence,
    state: State,
    inputs: Float[Tensor, "B T *_"],
    dt: Float[Tensor, "B T"],
    valid: Bool[Tensor, "B T"],
    is_first: Bool[Tensor, "B T"],
) -> tuple[Tensor, State]:
    """Repeat `step` over T ticks; see `MemoryModule.scan`. Outputs of ticks that are not valid mean nothing."""
    outputs, blank = [], recurrence.init(len(inputs))
    # `unbind`, as the gradient of a slice is as large as the whole.
    for tick, elapsed, live, first in zip(*(x.unbind(1) for x in (inputs, dt, valid, is_first)), strict=True):
        state = select(first, blank, state)
        output, after = recurrence.step(state, tick, elapsed)
        state = select(live, after, state)
        outputs.append(output)
    return torch.stack(outputs, dim=1), state


def select(rows: Bool[Tensor, " B"], chosen: State, other: State) -> State:
    """Rows of `chosen` where `rows` is true, of `other` elsewhere."""
    return {
        name: torch.where(rows.view(-1, *[1] * (value.ndim - 1)), value, other[name]) for name, value in chosen.items()
    }
