"""The smallest model around a trunk: an observation is its context, an output its answer."""

from copy import copy
from typing import TYPE_CHECKING

from jaxtyping import Float
from torch import Tensor

from robomem.factory import instantiate
from robomem.probes.model import Model, module_config

if TYPE_CHECKING:
    from robomem.policies.heads.trunk import Solution, Trunk
    from robomem.policies.memory.base import State


class TrunkModel(Model):
    """Answers every observation by itself; nothing is remembered."""

    def __init__(self, trunk: "Trunk") -> None:
        """Wrap a trunk without inputs."""
        super().__init__()
        self.trunk = trunk

    @property
    def subject(self) -> "Trunk":
        """The trunk."""
        return self.trunk

    def init(self, rows: int) -> "State":
        """Nothing."""
        return {}

    def scan(self, state: "State", observation: Tensor, dt: Tensor) -> tuple[Tensor, "State"]:
        """Answers to be trained."""
        context = observation.flatten(0, 1)
        outputs = self.trunk(context.new_zeros(len(context), 1, 0), self.trunk.encode(context))
        return outputs.view(*observation.shape[:2], -1), state

    def step(self, state: "State", observation: Tensor, dt: Tensor) -> tuple[Tensor, "State"]:
        """Answers to act on."""
        return self.solve(observation).outputs[:, 0], state

    def solve(self, context: Float[Tensor, "R C"]) -> "Solution":
        """As in acting; M = 1."""
        return self.trunk.solve(context.new_zeros(len(context), 1, 0), self.trunk.encode(context))

    def iterated(self, count: int | None = None) -> "TrunkModel":
        """The same weights with just `count` iterations, by default its most; a trunk of fixed depth as it is."""
        from robomem.policies.heads.recurrent_depth import RecurrentDepth

        if not isinstance(self.trunk, RecurrentDepth):
            return self
        trunk = copy(self.trunk)
        trunk.max_iterations, trunk.tolerance = count or trunk.max_iterations, 0.0
        return TrunkModel(trunk)


def build_trunk(name: str, features: int, outputs: int) -> TrunkModel:
    """An untrained model around a trunk; see `module_config` for its name."""
    make = instantiate(module_config("trunk", name))
    return TrunkModel(make(inputs=0, context=features, outputs=outputs))
