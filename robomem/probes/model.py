"""The smallest policy-like model around a memory module: embedding, memory, readout."""

from collections.abc import Mapping
from importlib import resources
from typing import TYPE_CHECKING, Any

import torch
import yaml
from jaxtyping import Float
from torch import Tensor, nn

from robomem.factory import instantiate
from robomem.probes.base import PERIOD

if TYPE_CHECKING:
    from robomem.policies.memory.base import MemoryModule, State

CHANNELS = 32
"""D; the N = 5 tokens are four patches of one camera and a cognition token."""
WIDTH = 64
"""Hidden units of the readout."""
COUNTING = "-ticks"
"""End of a module's name that takes its clock away: every interval it is told is the nominal one."""


class ProbeModel(nn.Module):
    """Tokens of an observation through a memory module to an answer."""

    def __init__(self, memory: "MemoryModule", features: int, outputs: int, told_time: bool = True) -> None:
        """Wrap a module.

        Args:
            memory: The module.
            features: F, size of an observation.
            outputs: O, size of an answer.
            told_time: Hand the measured `dt` on; otherwise the module gets the nominal one, as if it counted ticks.
        """
        super().__init__()
        tokens, channels = memory.layout.tokens, memory.layout.channels
        self.memory, self.told_time = memory, told_time
        self.embed = nn.Sequential(nn.Linear(features, tokens * channels), nn.Unflatten(-1, (tokens, channels)))
        self.readout = nn.Sequential(
            nn.Flatten(-2), nn.Linear(tokens * channels, WIDTH), nn.GELU(), nn.Linear(WIDTH, outputs)
        )

    def interval(self, dt: Float[Tensor, "*B"]) -> Float[Tensor, "*B"]:
        """The `dt` that the module is told."""
        return dt if self.told_time else torch.full_like(dt, PERIOD)

    def scan(
        self, state: "State", observation: Float[Tensor, "B T F"], dt: Float[Tensor, "B T"]
    ) -> tuple[Float[Tensor, "B T O"], "State"]:
        """Answers to T observations and the state after them."""
        always = torch.ones_like(dt, dtype=torch.bool)
        tokens, state = self.memory.scan(state, self.embed(observation), self.interval(dt), always, ~always)
        return self.readout(tokens), state

    def step(
        self, state: "State", observation: Float[Tensor, "B F"], dt: Float[Tensor, " B"]
    ) -> tuple[Float[Tensor, "B O"], "State"]:
        """The answer to one observation and the state after it."""
        tokens, state = self.memory.step(state, self.embed(observation), self.interval(dt))
        return self.readout(tokens), state


def memories() -> list[str]:
    """Names of all memory modules."""
    folder = resources.files("robomem.configs") / "memory"
    return sorted(entry.name.removesuffix(".yaml") for entry in folder.iterdir() if entry.name.endswith(".yaml"))


def memory_config(name: str) -> Mapping[str, Any]:
    """Settings of a module by its name."""
    path = resources.files("robomem.configs") / "memory" / f"{name.removesuffix(COUNTING)}.yaml"
    return yaml.safe_load(path.read_text())


def build(name: str, features: int, outputs: int, seed: int) -> ProbeModel:
    """An untrained model around the module of a name."""
    from robomem.policies.tokens import Layout

    torch.manual_seed(seed)
    layout = Layout(cameras=1, height=2, width=2, channels=CHANNELS)
    memory = instantiate(memory_config(name), layout=layout)
    return ProbeModel(memory, features, outputs, told_time=not name.endswith(COUNTING))
