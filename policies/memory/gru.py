"""A gated recurrent unit over one pooled vector: the classic recurrent control."""

import torch
from jaxtyping import Float
from torch import Tensor, nn

from robomem.policies.memory.base import MemoryModule, State
from robomem.policies.tokens import Layout


class GRU(MemoryModule):
    """Attention-pooled observations drive a GRU cell; its state is added to every token.

    The elapsed time enters as log(1 + dt).
    """

    def __init__(self, layout: Layout, *, hidden: int = 128, queries: int = 4) -> None:
        """Build a cell of `hidden` units that sees `queries` pooled vectors."""
        super().__init__(layout)
        self.hidden = hidden
        self.pool = nn.Parameter(torch.randn(queries, self.channels) / self.channels**0.5)
        self.cell = nn.GRUCell((queries + 1) * self.channels + 1, hidden)
        self.out = nn.Linear(hidden, self.channels)

    def init(self, batch: int) -> State:
        """Zeros."""
        return {"hidden": torch.zeros(batch, self.hidden, device=self.pool.device)}

    def step(self, state: State, tokens: Tensor, dt: Tensor) -> tuple[Tensor, State]:
        """One update; float32 whatever the autocast."""
        pooled = (self.pool @ tokens.transpose(1, 2)).softmax(-1) @ tokens
        inputs = torch.cat([pooled.flatten(1), self.layout.cognitive(tokens), dt.log1p()[:, None]], dim=-1)
        with torch.autocast(tokens.device.type, enabled=False):
            hidden: Float[Tensor, "B hidden"] = self.cell(inputs.float(), state["hidden"])
        return tokens + self.out(hidden)[:, None], {"hidden": hidden}
