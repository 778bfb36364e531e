"""The gated recurrent unit: the classic recurrent control."""

import torch
from torch import Tensor, nn

from robomem.policies.memory.base import State
from robomem.policies.memory.recurrent import TICK, Cell, keep_logits


class GRU(Cell):
    """A GRU that is told the elapsed time as one more input, log(1 + dt / tick)."""

    def __init__(self, inputs: int, *, hidden: int = 128) -> None:
        """Build `hidden` units."""
        super().__init__()
        self.features = hidden
        self.cell = slow_gru(inputs + 1, hidden)

    def init(self, batch: int) -> State:
        """Zeros."""
        return {"hidden": self.cell.weight_hh.new_zeros(batch, self.features)}

    def step(self, state: State, inputs: Tensor, dt: Tensor) -> tuple[Tensor, State]:
        """One update."""
        hidden = self.cell(torch.cat([inputs, (dt / TICK).log1p()[:, None]], dim=-1), state["hidden"])
        return hidden, {"hidden": hidden}


def slow_gru(inputs: int, hidden: int) -> nn.GRUCell:
    """A GRU whose units start with time scales from a tick to minutes, instead of a few ticks all."""
    cell = nn.GRUCell(inputs, hidden)
    with torch.no_grad():
        for bias, value in ((cell.bias_ih, keep_logits(hidden)), (cell.bias_hh, 0.0)):
            bias[hidden : 2 * hidden] = value  # of reset, update and candidate, the update gate, which keeps
    return cell
