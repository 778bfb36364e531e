"""GRU-D (arXiv 1606.01865): a gated recurrent unit whose state decays between observations."""

import torch
from torch import Tensor, nn

from robomem.policies.memory.base import State
from robomem.policies.memory.gru import slow_gru
from robomem.policies.memory.recurrent import Cell, spread


class GRUD(Cell):
    """The hidden state decays by exp(-dt / tau) with one learned time scale per unit, then a GRU updates it.

    Of the published exponent max(0, w * dt + b) the offset b, which forgets in no time, is left out. There is nothing
    to impute: a tick has all of its inputs or none.
    """

    def __init__(self, inputs: int, *, hidden: int = 128) -> None:
        """Build `hidden` units."""
        super().__init__()
        self.features = hidden
        self.cell = slow_gru(inputs, hidden)
        self.log_scale = nn.Parameter(spread(hidden).log())

    def init(self, batch: int) -> State:
        """Zeros."""
        return {"hidden": self.log_scale.new_zeros(batch, self.features)}

    def step(self, state: State, inputs: Tensor, dt: Tensor) -> tuple[Tensor, State]:
        """Decay, then update."""
        hidden = self.cell(inputs, self.advance(state, dt)["hidden"])
        return hidden, {"hidden": hidden}

    def advance(self, state: State, dt: Tensor) -> State:
        """Decay for `dt` seconds."""
        return {"hidden": state["hidden"] * torch.exp(-dt[:, None] * torch.exp(-self.log_scale))}
