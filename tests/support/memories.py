"""Memory modules and random observations to try them with."""

from pathlib import Path

import torch
import yaml
from torch import Tensor, nn

from robomem.factory import instantiate
from robomem.policies.memory.base import MemoryModule, State
from robomem.policies.tokens import Layout

CONFIGS = Path(__file__).parents[2] / "configs" / "memory"
LAYOUT = Layout(cameras=2, height=2, width=2, channels=8)
B = 2


def make(name: str) -> MemoryModule:
    """A module as its configuration file says."""
    torch.manual_seed(0)
    return instantiate(yaml.safe_load((CONFIGS / f"{name}.yaml").read_text()), layout=LAYOUT)


def awake[M: nn.Module](module: M) -> M:
    """The same module, its zero-initialised projections moved, so that everything matters."""
    for parameter in module.parameters():
        if not parameter.any():
            torch.nn.init.normal_(parameter, std=0.1)
    return module


def draw(ticks: int, seed: int = 0, rows: int = B) -> Tensor:
    """Random tokens, (B, T, N, D)."""
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(rows, ticks, LAYOUT.tokens, LAYOUT.channels, generator=generator)


def seconds(value: float) -> Tensor:
    """The same time in every row."""
    return torch.full((B,), value)


def run(module: MemoryModule, tokens: Tensor, dt: float = 0.1, state: State | None = None) -> tuple[Tensor, State]:
    """All ticks, `dt` seconds apart."""
    ones = torch.ones(tokens.shape[:2], dtype=torch.bool)
    start = module.init(len(tokens)) if state is None else state
    return module.scan(start, tokens, torch.full(tokens.shape[:2], dt), ones, ~ones)
