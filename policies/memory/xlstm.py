"""The matrix memory of xLSTM (mLSTM, arXiv 2405.04517), forgetting by seconds instead of steps."""

import math
from typing import NamedTuple

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn
from torch.nn import functional

from robomem.policies.memory.base import State
from robomem.policies.memory.recurrent import TICK, Cell, keep_logits
from robomem.policies.memory.scan import linear_scan


class Projected(NamedTuple):
    """Queries, keys and values (B, T, H, S), and the gates in log space (B, T, H)."""

    query: Tensor
    key: Tensor
    value: Tensor
    write: Tensor
    forget: Tensor


class MLSTM(Cell):
    """Per head C <- f * C + i * k v^T and n <- f * n + i * k, read as q C / max(|q n|, 1).

    The forget gate holds for one tick of 20 Hz; over `dt` seconds it acts `dt / tick` times. C and n are kept divided
    by exp(m), the largest weight in them, so that the exponential input gate cannot overflow.
    """

    def __init__(self, inputs: int, *, heads: int = 4, size: int = 32, chunk: int = 64) -> None:
        """Build `heads` matrices of `size` x `size`; a scan takes `chunk` ticks at once."""
        super().__init__()
        self.heads, self.size, self.chunk = heads, size, chunk
        self.features = heads * size
        self.project = nn.Linear(inputs, 3 * self.features)
        self.gates = nn.Linear(inputs, 2 * heads)
        self.out_gate = nn.Linear(inputs, self.features)
        with torch.no_grad():
            self.gates.weight *= 0.1
            self.gates.bias[heads:] = keep_logits(heads)

    def init(self, batch: int) -> State:
        """Zeros: matrix C, normaliser n and log-scale m."""
        blank = self.gates.bias.new_zeros(batch, self.heads, self.size)
        return {"matrix": blank[..., None] * blank[..., None, :], "normaliser": blank, "scale": blank[..., 0]}

    def step(self, state: State, inputs: Tensor, dt: Tensor) -> tuple[Tensor, State]:
        """The recurrent form (equations 19 to 27 of the paper)."""
        query, key, value, write, forget = self._project(inputs, dt)
        with torch.no_grad():
            scale = torch.maximum(forget + state["scale"], write)
        keep = torch.exp(forget + state["scale"] - scale)[..., None]
        added = torch.exp(write - scale)[..., None] * key
        matrix = keep[..., None] * state["matrix"] + added[..., None] * value[..., None, :]
        normaliser = keep * state["normaliser"] + added
        weight = (query * normaliser).sum(-1).abs()
        read = (query[..., None, :] @ matrix).squeeze(-2) / torch.maximum(weight, torch.exp(-scale))[..., None]
        return self._read(read, inputs), {"matrix": matrix, "normaliser": normaliser, "scale": scale}

    def scan(self, state: State, inputs: Tensor, dt: Tensor, valid: Tensor, is_first: Tensor) -> tuple[Tensor, State]:
        """Attention within chunks, recurrence between them; the same result."""
        projected = self._project(inputs, dt)
        pieces = zip(*(x.split(self.chunk, dim=1) for x in (*projected, valid, is_first)), strict=True)
        reads = []
        for *piece, live, first in pieces:
            read, state = self._scan_chunk(state, Projected(*piece), live, first)
            reads.append(read)
        return self._read(torch.cat(reads, dim=1), inputs), state

    def _scan_chunk(
        self, state: State, projected: Projected, valid: Bool[Tensor, "B L"], is_first: Bool[Tensor, "B L"]
    ) -> tuple[Float[Tensor, "B L H S"], State]:
        """Weights of every tick's write, and of the state before, at every tick: (B, H, L, L) and (B, H, L)."""
        query, key, value, write, forget = (x.transpose(1, 2) for x in projected)
        blank = forget.new_zeros(len(forget), self.heads)
        ones = torch.ones_like(projected.forget)
        forgotten = linear_scan(ones, projected.forget, blank, valid, is_first).transpose(1, 2)
        episode = is_first.cumsum(1)
        old = (episode == 0)[:, None]
        seen = (episode[:, :, None] == episode[:, None]) & valid[:, None]
        seen = seen.tril()[:, None]
        log_weight = (forgotten[..., None] + (write - forgotten)[..., None, :]).masked_fill(~seen, -math.inf)
        log_keep = forgotten + torch.where(old, state["scale"][..., None], 0)
        with torch.no_grad():
            scale = torch.maximum(log_weight.amax(-1), log_keep)
        weight = torch.exp(log_weight - scale[..., None])
        keep = torch.where(old, torch.exp(log_keep - scale), 0)
        scores = query @ key.transpose(-1, -2) * weight
        total = scores.sum(-1) + keep * (query @ state["normaliser"][..., None]).squeeze(-1)
        read = scores @ value + keep[..., None] * (query @ state["matrix"])
        read = read / torch.maximum(total.abs(), torch.exp(-scale))[..., None]
        added = weight[..., -1, :, None] * key
        kept = keep[..., -1, None]
        after = {
            "matrix": kept[..., None] * state["matrix"] + added.transpose(-1, -2) @ value,
            "normaliser": kept * state["normaliser"] + added.sum(-2),
            "scale": scale[..., -1],
        }
        return read.transpose(1, 2), after

    def _project(self, inputs: Float[Tensor, "*B I"], dt: Float[Tensor, "*B"]) -> Projected:
        query, key, value = self.project(inputs).unflatten(-1, (3, self.heads, self.size)).unbind(-3)
        write, forget = self.gates(inputs).chunk(2, dim=-1)
        forget = functional.logsigmoid(forget) * (dt / TICK)[..., None]
        return Projected(query, key / self.size**0.5, value, write, forget)

    def _read(self, read: Float[Tensor, "*B H S"], inputs: Float[Tensor, "*B I"]) -> Float[Tensor, "*B F"]:
        """Heads normalised each, then gated."""
        return self.out_gate(inputs).sigmoid() * functional.layer_norm(read, read.shape[-1:]).flatten(-2)
