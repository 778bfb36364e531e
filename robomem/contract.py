"""The contract: a policy is pure functions over an explicit memory value.

    memory = policy.init_memory(batch_size)
    memory = policy.observe(memory, observation, dt)
    chunk = policy.plan(memory, noise, prefix)
    losses, memory = policy.loss(window, memory)

`observe` is the only writer and runs on every control tick, also while a chunk is being executed. `plan` is the only
reader, sees nothing but the memory (and the actions already committed, if there are), and is deterministic given its
noise. A policy module holds weights and nothing that changes between calls, so one policy serves any number of
episodes at once.

Shapes: B rows (independent episodes), T ticks of a window, H steps of an action chunk, A action and P proprioception
dimensions, (Y, X, 3) pixels, N features of C numbers.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Protocol, runtime_checkable

import torch
from jaxtyping import Bool, Float, UInt8
from torch import Tensor

from robomem.spec import PolicySpec

Tensors = Mapping[str, Tensor]


@dataclass(frozen=True)
class Observation:
    """What the robot perceives at one control tick; never a privileged simulator state.

    In a training `Window` every tensor has a T axis after B.
    """

    images: Mapping[str, UInt8[Tensor, "*B Y X 3"]]
    """RGB image of each camera of the spec, by camera name."""
    proprio: Float[Tensor, "*B P"]
    """Proprioception in the spec's order and units."""
    instruction: tuple[str, ...]
    """One instruction per row, constant through an episode. In a `Window`, where an episode may begin at any tick, one
    per row and tick: B*T in row-major order, empty on padding."""
    features: Mapping[str, Float[Tensor, "*B N C"]] = field(default_factory=dict)
    """In training, what the policy's frozen encoder made of each camera's image before, in place of `images`."""

    def map(self, fn: Callable[[Tensor], Tensor]) -> "Observation":
        """Apply a function to every tensor."""
        images, features = ({k: fn(v) for k, v in views.items()} for views in (self.images, self.features))
        return Observation(images, fn(self.proprio), self.instruction, features)

    def to(self, device: torch.device | str) -> "Observation":
        """The same observation on another device."""
        return self.map(lambda tensor: tensor.to(device))


@dataclass(frozen=True)
class Memory:
    """All that a policy knows, as a value: batch-first tensors whose shapes never depend on time."""

    working: Tensors
    """Tokens of the newest observation, (B, ...)."""
    state: Tensors
    """Long-term state of the memory module, (B, ...)."""

    def map(self, fn: Callable[[Tensor], Tensor]) -> "Memory":
        """Apply a function to every tensor."""
        return Memory({k: fn(v) for k, v in self.working.items()}, {k: fn(v) for k, v in self.state.items()})

    def detach(self) -> "Memory":
        """The same value outside the autograd graph (the border of truncated backpropagation)."""
        return self.map(Tensor.detach)

    def where(self, rows: Bool[Tensor, " B"], other: "Memory") -> "Memory":
        """Rows of `other` where `rows` is true, own rows elsewhere."""

        def pick(mine: Tensor, theirs: Tensor) -> Tensor:
            return torch.where(rows.view(-1, *[1] * (mine.ndim - 1)), theirs, mine)

        return Memory(
            {k: pick(v, other.working[k]) for k, v in self.working.items()},
            {k: pick(v, other.state[k]) for k, v in self.state.items()},
        )


@dataclass(frozen=True)
class ActionChunk:
    """The next H actions, one per `action_dt`, the first for the tick of the newest observation."""

    actions: Float[Tensor, "B H A"]
    """Actions in the spec's order, units and limits."""


@dataclass(frozen=True)
class Prefix:
    """Actions already committed, which a new chunk goes on from (real-time chunking, arXiv 2506.07339).

    The arm acts while a plan is being made; what it will have done by then, taken from the plan before, is given here.
    """

    actions: Float[Tensor, "B H A"]
    """Actions in the spec's order and units, the first for the tick of the newest observation."""
    weight: Float[Tensor, "B H"]
    """1: the plan has exactly this action; 0: it is free; between: it is drawn towards this action."""

    def pull(self, actions: Float[Tensor, "B H A"]) -> Float[Tensor, "B H A"]:
        """Actions drawn towards the committed ones by their weights."""
        return torch.lerp(actions, self.actions.to(actions.dtype), self.weight[..., None].to(actions.dtype))


@dataclass(frozen=True)
class Window:
    """T consecutive ticks of B episodes; row b continues where row b of the previous window ended."""

    observation: Observation
    dt: Float[Tensor, "B T"]
    """Seconds since the previous observation of the row; 0 at the first."""
    is_first: Bool[Tensor, "B T"]
    """First tick of an episode: the memory of the row starts anew there."""
    valid: Bool[Tensor, "B T"]
    """False on padding after an episode's end; a padded tick changes nothing."""
    actions: Float[Tensor, "B T H A"]
    """The recorded actions from each tick on."""
    previous_action: Float[Tensor, "B T A"]
    """The recorded action of the tick before; zeros at the first."""
    past_actions: Float[Tensor, "B T H A"]
    """The recorded actions of the H control steps before each tick, the newest last."""
    past_valid: Bool[Tensor, "B T H"]
    """False before the episode's beginning and on padding."""
    action_valid: Bool[Tensor, "B T H"]
    """False beyond the episode's end and on padding."""
    outcome: Float[Tensor, "B T P"]
    """Proprioception at the end of the row's episode: where the demonstrator went (hindsight)."""

    def to(self, device: torch.device | str) -> "Window":
        """The same window on another device."""
        rest = {k: v.to(device) for k, v in vars(self).items() if k != "observation"}
        return Window(observation=self.observation.to(device), **rest)


@runtime_checkable
class Policy(Protocol):
    """Everything that drives a policy (training, simulation, replay, serving, the arm) calls exactly these."""

    spec: PolicySpec

    def init_memory(self, batch_size: int) -> Memory:
        """The memory before the first observation of `batch_size` episodes."""
        ...

    def observe(self, memory: Memory, observation: Observation, dt: Float[Tensor, " B"]) -> Memory:
        """Fold one observation into the memory; `dt` is the measured time in seconds since the previous one."""
        ...

    def plan(self, memory: Memory, noise: Float[Tensor, "B H A"], prefix: Prefix | None = None) -> ActionChunk:
        """The next actions, from the memory alone; `noise` is standard normal and the only randomness.

        With a `prefix` the chunk begins with the actions that are already committed.
        """
        ...

    def loss(self, window: Window, memory: Memory) -> tuple[dict[str, Tensor], Memory]:
        """Weighted loss terms (their sum is minimised) and the memory after the window."""
        ...


def reset(policy: Policy, memory: Memory, rows: Bool[Tensor, " B"]) -> Memory:
    """Start the memory of some rows anew and leave the others untouched."""
    return memory.where(rows, policy.init_memory(len(rows)))
