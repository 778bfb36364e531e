"""The smallest policy-like model around a memory module: embedding, memory, readout."""

import re
from typing import TYPE_CHECKING, Any, cast

import torch
from jaxtyping import Float
from omegaconf import OmegaConf
from torch import Tensor, nn
from yaml import YAMLError

from robomem.errors import RobomemError, nearest
from robomem.factory import instantiate
from robomem.groups import CONFIGS, options

if TYPE_CHECKING:
    from robomem.policies.memory.base import MemoryModule, State

CHANNELS = 32
"""D; the N = 5 tokens are four patches of one camera and a cognition token."""
WIDTH = 64
"""Hidden units of the readout."""
_SEPARATOR = re.compile(r",(?![^\[]*\])")
"""Between settings, not within a list."""


class Model(nn.Module):
    """What a probe trains and tests."""

    @property
    def subject(self) -> nn.Module:
        """The part that is being tested; the rest only connects it to the probe."""
        raise NotImplementedError

    def init(self, rows: int) -> "State":
        """What is remembered before the first observation."""
        raise NotImplementedError

    def scan(
        self, state: "State", observation: Float[Tensor, "B T F"], dt: Float[Tensor, "B T"]
    ) -> tuple[Float[Tensor, "B T O"], "State"]:
        """Answers to T observations and the state after them."""
        raise NotImplementedError

    def fold(self, state: "State", observation: Float[Tensor, "B T F"], dt: Float[Tensor, "B T"]) -> "State":
        """That state alone."""
        return self.scan(state, observation, dt)[1]

    def step(
        self, state: "State", observation: Float[Tensor, "B F"], dt: Float[Tensor, " B"]
    ) -> tuple[Float[Tensor, "B O"], "State"]:
        """The answer to one observation and the state after it."""
        raise NotImplementedError


class MemoryModel(Model):
    """Tokens of an observation through a memory module to an answer."""

    def __init__(self, memory: "MemoryModule", features: int, outputs: int) -> None:
        """Wrap a module for observations of F = `features` and answers of O = `outputs` numbers."""
        super().__init__()
        tokens, channels = memory.layout.tokens, memory.layout.channels
        self.memory = memory
        self.embed = nn.Sequential(nn.Linear(features, tokens * channels), nn.Unflatten(-1, (tokens, channels)))
        self.readout = nn.Sequential(
            nn.Flatten(-2), nn.Linear(tokens * channels, WIDTH), nn.GELU(), nn.Linear(WIDTH, outputs)
        )

    @property
    def subject(self) -> nn.Module:
        """The memory module."""
        return self.memory

    def init(self, rows: int) -> "State":
        """Of the module."""
        return self.memory.init(rows)

    def scan(self, state: "State", observation: Tensor, dt: Tensor) -> tuple[Tensor, "State"]:
        """By the module's `scan`."""
        always = torch.ones_like(dt, dtype=torch.bool)
        tokens, state = self.memory.scan(state, self.embed(observation), dt, always, ~always)
        return self.readout(tokens), state

    def fold(self, state: "State", observation: Tensor, dt: Tensor) -> "State":
        """By the module's `fold`."""
        always = torch.ones_like(dt, dtype=torch.bool)
        return self.memory.fold(state, self.embed(observation), dt, always, ~always)

    def step(self, state: "State", observation: Tensor, dt: Tensor) -> tuple[Tensor, "State"]:
        """By the module's `step`."""
        tokens, state = self.memory.step(state, self.embed(observation), dt)
        return self.readout(tokens), state


def module_config(group: str, name: str) -> dict[str, Any]:
    """Settings of a module: `NAME`, or `NAME:KEY=VALUE,KEY=VALUE` with other values than its file has.

    Raises:
        RobomemError: no such module, of which the nearest is named, or values that are no YAML.
        omegaconf.errors.OmegaConfBaseException: no such key.
    """
    base, _, changes = name.partition(":")
    if base not in (known := options(group)):
        raise RobomemError(f"no {group} module {base!r}{nearest(base, known)}")
    text = (CONFIGS / group / f"{base}.yaml").read_text()
    config = OmegaConf.create(text)
    OmegaConf.set_struct(config, True)
    try:
        config.merge_with_dotlist(_SEPARATOR.split(changes) if changes else [])
    except YAMLError as error:
        raise RobomemError(f"{changes!r} cannot be read as KEY=VALUE,KEY=VALUE; give lists as [1,2]") from error
    return cast(dict[str, Any], OmegaConf.to_container(config))


def build_memory(name: str, features: int, outputs: int) -> MemoryModel:
    """An untrained model around a memory module; see `module_config` for its name."""
    from robomem.policies.tokens import Layout

    layout = Layout(cameras=1, height=2, width=2, channels=CHANNELS)
    return MemoryModel(instantiate(module_config("memory", name), layout=layout), features, outputs)
