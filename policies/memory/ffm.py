"""Fast and Forgetful Memory (arXiv 2310.04128), forgetting by seconds instead of steps."""

import math

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional

from robomem.policies.memory.base import State
from robomem.policies.memory.recurrent import TICK, Cell, spread
from robomem.policies.memory.scan import linear_scan


class FFM(Cell):
    """Decaying sums of gated inputs (traces), each seen through several rotations (contexts) that tell when.

    S_t = S_{t-1} * exp((-1 / tau + i * omega) * dt) + x_t over traces x contexts, read by a gated residual.
    """

    def __init__(self, inputs: int, *, traces: int = 32, contexts: int = 4, hidden: int = 128) -> None:
        """Build `traces` time scales times `contexts` periods, read into `hidden` features."""
        super().__init__()
        self.features = hidden
        self.write = nn.Linear(inputs, traces)
        self.write_gate = nn.Linear(inputs, traces)
        self.log_scale = nn.Parameter(spread(traces).log())
        self.log_period = nn.Parameter(spread(contexts).log())
        self.mix = nn.Linear(2 * traces * contexts, hidden)
        self.skip = nn.Linear(inputs, hidden)
        self.read_gate = nn.Linear(inputs, hidden)

    def init(self, batch: int) -> State:
        """Zeros: (B, traces, contexts), complex as pairs."""
        return {"traces": self.log_scale.new_zeros(batch, len(self.log_scale), len(self.log_period), 2)}

    def step(self, state: State, inputs: Tensor, dt: Tensor) -> tuple[Tensor, State]:
        """Forget for `dt` seconds, then add."""
        traces = torch.view_as_complex(self.advance(state, dt)["traces"]) + self._additions(inputs)
        return self._read(traces, inputs), {"traces": torch.view_as_real(traces)}

    def scan(self, state: State, inputs: Tensor, dt: Tensor, valid: Tensor, is_first: Tensor) -> tuple[Tensor, State]:
        """All ticks at once."""
        initial = torch.view_as_complex(state["traces"].contiguous())
        traces = linear_scan(self._decay(dt), self._additions(inputs), initial, valid, is_first)
        return self._read(traces, inputs), {"traces": torch.view_as_real(traces[:, -1])}

    def advance(self, state: State, dt: Tensor) -> State:
        """Forget for `dt` seconds."""
        traces = torch.view_as_complex(state["traces"].contiguous())
        return {"traces": torch.view_as_real(traces * self._decay(dt))}

    def _decay(self, dt: Float[Tensor, "*B"]) -> Tensor:
        """(*B, traces, contexts)."""
        fading = torch.exp(-torch.exp(-self.log_scale) * dt[..., None])
        angle = 2 * math.pi * torch.exp(-self.log_period) * dt[..., None]
        return fading[..., None] * torch.polar(torch.ones_like(angle), angle)[..., None, :]

    def _additions(self, inputs: Float[Tensor, "*B I"]) -> Tensor:
        """What is added to each trace, the same in all contexts: a steady input at 20 Hz adds up to itself."""
        gain = -torch.expm1(-TICK * torch.exp(-self.log_scale))
        added = gain * self.write(inputs) * self.write_gate(inputs).sigmoid()
        return torch.complex(added, torch.zeros_like(added))[..., None].expand(*added.shape, len(self.log_period))

    def _read(self, traces: Tensor, inputs: Float[Tensor, "*B I"]) -> Float[Tensor, "*B F"]:
        gate = self.read_gate(inputs).sigmoid()
        mixed = self.mix(torch.view_as_real(traces).flatten(-3))
        return gate * functional.layer_norm(mixed, mixed.shape[-1:]) + (1 - gate) * self.skip(inputs)
