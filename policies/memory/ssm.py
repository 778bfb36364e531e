"""A diagonal state-space model (S4D, arXiv 2206.11893; S5, arXiv 2208.04933) stepped by the measured time."""

import torch
from torch import Tensor, nn

from robomem.errors import RobomemError
from robomem.policies.memory.base import State
from robomem.policies.memory.flow import settle, spread_turns, to_complex, to_real
from robomem.policies.memory.recurrent import Cell, spread
from robomem.policies.memory.scan import hold, linear_scan


class SSM(Cell):
    """Damped oscillators of learned time scale and frequency, driven by the inputs through a zero-order hold.

    The hold is that of the ZOH rule: an input acts until the next one. Inputs enter with unit gain at rest, so that all
    time scales start alike.
    """

    def __init__(self, inputs: int, *, hidden: int = 128) -> None:
        """Build `hidden` / 2 complex channels.

        Raises:
            RobomemError: `hidden` is odd.
        """
        super().__init__()
        if hidden % 2:
            raise RobomemError(f"state-space channels are pairs, and hidden={hidden} is odd; use an even number")
        self.features = hidden
        self.drive = nn.Linear(inputs, hidden)
        self.log_scale = nn.Parameter(spread(hidden // 2).log())
        self.turns = nn.Parameter(spread_turns(hidden // 2))

    def init(self, batch: int) -> State:
        """Zeros."""
        return {name: self.drive.bias.new_zeros(batch, self.features) for name in ("memory", "input")}

    def step(self, state: State, inputs: Tensor, dt: Tensor) -> tuple[Tensor, State]:
        """`dt` seconds under the previous input, then hold the new one."""
        memory = self.advance(state, dt)["memory"]
        return memory, {"memory": memory, "input": self.drive(inputs)}

    def scan(self, state: State, inputs: Tensor, dt: Tensor, valid: Tensor, is_first: Tensor) -> tuple[Tensor, State]:
        """All ticks at once."""
        before, after = hold(self.drive(inputs), state["input"], valid, is_first)
        decay, drive = self._settle(before, dt)
        memory = to_real(linear_scan(decay, drive, to_complex(state["memory"]), valid, is_first))
        return memory, {"memory": memory[:, -1], "input": after}

    def advance(self, state: State, dt: Tensor) -> State:
        """`dt` seconds under the input that is held."""
        decay, drive = self._settle(state["input"], dt)
        return {**state, "memory": to_real(decay * to_complex(state["memory"]) + drive)}

    def _settle(self, held: Tensor, dt: Tensor) -> tuple[Tensor, Tensor]:
        return settle(to_complex(held), torch.exp(-self.log_scale), dt, self.turns)
