"""Closed-form continuous-time network (CfC, arXiv 2106.13898): a gate in time instead of a solved equation."""

import torch
from torch import Tensor, nn

from robomem.policies.memory.base import State
from robomem.policies.memory.recurrent import Cell, spread


class CfC(Cell):
    """h = s * f + (1 - s) * g with s = sigmoid(-(a * dt + b)), where f, g, a and b see the inputs and the prior state.

    The gate is open by half when no time passes, so that two steps of dt are not one of 2 dt: a comparison for `Flow`.
    """

    def __init__(self, inputs: int, *, hidden: int = 128, backbone: int = 128) -> None:
        """Build `hidden` units over a shared layer of `backbone`."""
        super().__init__()
        self.features = hidden
        self.backbone = nn.Linear(inputs + hidden, backbone)
        self.heads = nn.Linear(backbone, 4 * hidden)
        with torch.no_grad():
            self.heads.bias[2 * hidden : 3 * hidden] = 1 / spread(hidden)

    def init(self, batch: int) -> State:
        """Zeros."""
        return {"hidden": self.heads.bias.new_zeros(batch, self.features)}

    def step(self, state: State, inputs: Tensor, dt: Tensor) -> tuple[Tensor, State]:
        """One update."""
        shared = self.backbone(torch.cat([inputs, state["hidden"]], dim=-1))
        near, far, rate, bias = self.heads(torch.tanh(shared)).chunk(4, dim=-1)
        gate = torch.sigmoid(-(rate * dt[:, None] + bias))
        hidden = gate * near.tanh() + (1 - gate) * far.tanh()
        return hidden, {"hidden": hidden}
