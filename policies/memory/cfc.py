"""Closed-form continuous-time network (CfC, arXiv 2106.13898): a gate in time instead of a solved equation."""

import torch
from torch import Tensor, nn

from robomem.errors import RobomemError
from robomem.policies.memory.base import State
from robomem.policies.memory.recurrent import Cell, keep_logits, spread


class CfC(Cell):
    """h = s * f + (1 - s) * g with s = sigmoid(-(a * dt + b)), where f, g, a and b see the inputs and the prior state.

    Something changes even when no time passes, and two steps of dt are not one of 2 dt: a comparison for `Flow`.
    """

    def __init__(self, inputs: int, *, hidden: int = 128, backbone: int = 256) -> None:
        """Build `hidden` units over a shared layer of `backbone`.

        Raises:
            RobomemError: the shared layer has no room for the prior state.
        """
        super().__init__()
        if backbone < hidden:
            raise RobomemError(f"backbone={backbone} is less than hidden={hidden}; use at least as many")
        self.features = hidden
        self.backbone = nn.Linear(inputs + hidden, backbone)
        self.heads = nn.Linear(backbone, 4 * hidden)
        self.reset_parameters()

    @torch.no_grad()
    def reset_parameters(self) -> None:
        """At first f is the prior state alone, left at each unit's own time scale; otherwise nothing is learned."""
        hidden = self.features
        for layer in (self.backbone, self.heads):
            nn.init.zeros_(layer.weight[:hidden])
            nn.init.zeros_(layer.bias[:hidden])
        nn.init.eye_(self.backbone.weight[:hidden, -hidden:])
        nn.init.eye_(self.heads.weight[:hidden])
        self.heads.weight[2 * hidden :] *= 0.1
        self.heads.bias[2 * hidden :] = torch.cat([1 / spread(hidden), -keep_logits(hidden)])

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
