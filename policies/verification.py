"""Self-verification: of several plans, the one that recalls best what was really done.

A policy that has learned past actions beside future ones draws both together; a sample whose past does not fit what was
executed has misread its memory (Past-Token Prediction, arXiv 2505.09561).
"""

from collections.abc import Mapping
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn import functional

from robomem.contract import Memory, Observation, Prefix, Window
from robomem.policies.heads.base import Sample, weighted_mean
from robomem.policies.memory.base import State, repeat
from robomem.policies.policy import MemoryPolicy


class SelfVerifyingPolicy(MemoryPolicy):
    """A `MemoryPolicy` that plans several times and keeps the plan whose past is most like the executed one.

    The executed past is part of the working memory, told from proprioception: a plan may be cut short, limited or
    overruled, and `plan` writes nothing.
    """

    signs: Tensor

    def __init__(self, *, samples: int, **parts: Any) -> None:
        """Assemble.

        Args:
            samples: N, plans to choose from.
            **parts: As of `MemoryPolicy`; the head learns past actions too.
        """
        super().__init__(**parts)
        spec = self.spec
        self.executed = ExecutedPast(self.encoder.proprio.size, self.past, spec.action.size, spec.action_dt)
        self.register_buffer("signs", _signs(samples, (spec.horizon, spec.action.size)), persistent=False)

    def init_memory(self, batch_size: int) -> Memory:
        """Nothing seen and nothing done."""
        return _with(super().init_memory(batch_size), self.executed.init(batch_size))

    def observe(self, memory: Memory, observation: Observation, dt: Float[Tensor, " B"]) -> Memory:
        """Encode, read and write, and tell what was done in the last `dt` seconds."""
        after = super().observe(memory, observation, dt)
        _, past = self.executed.step(memory.working, after.working["proprio"], dt.float())
        return _with(after, past)

    def loss(self, window: Window, memory: Memory) -> tuple[dict[str, Tensor], Memory]:
        """The losses of `MemoryPolicy`, and how far what seems to have been done is from what was."""
        losses, after = super().loss(window, memory)
        proprio = self.encoder.proprio(window.observation.proprio)
        start = {name: memory.working[name] for name in self.executed.init(0)}
        done, past = repeat(self.executed, start, proprio, window.dt, window.valid, window.is_first)
        recorded, recorded_valid = window.past_actions[:, :, -self.past :], window.past_valid[:, :, -self.past :]
        weight = known(done) * recorded_valid * window.valid[..., None]
        error = misfit(self.action(recorded), done)
        losses["executed"] = weighted_mean(error.flatten(0, 1), weight.flatten(0, 1))
        return losses, _with(after, past)

    def _sample(self, memory: Memory, noise: Float[Tensor, "B H A"], prefix: Prefix | None = None) -> Sample:
        count, rows = len(self.signs), torch.arange(len(noise), device=noise.device)
        working = Memory(memory.working, {}).map(lambda value: value.repeat_interleave(count, dim=0))
        if prefix:
            prefix = Prefix(*(x.repeat_interleave(count, dim=0) for x in (prefix.actions, prefix.weight)))
        drawn = super()._sample(working, (noise[:, None] * self.signs).flatten(0, 1), prefix)
        actions, iterations = (x.unflatten(0, (-1, count)) for x in drawn)
        done = memory.working["executed"][:, None]
        best = (known(done) * misfit(actions[:, :, : self.past].float(), done)).sum(-1).argmin(1)
        return Sample(actions[rows, best], iterations[rows, best])


class ExecutedPast(nn.Module):
    """The actions of the last K control steps, as proprioception tells: a linear inverse model of the robot.

    From how it moves and where it is follows what it was told; for a controller of displacements or of positions that
    is nearly linear. A step that was not observed is taken to be like those around it.
    """

    def __init__(self, proprio: int, steps: int, action: int, action_dt: float) -> None:
        """Build for K = `steps` actions of A = `action` entries, `action_dt` seconds apart."""
        super().__init__()
        self.steps, self.action_dt = steps, action_dt
        self.inverse = nn.Linear(2 * proprio, action)

    def init(self, batch: int) -> State:
        """Nothing done."""
        weight = self.inverse.weight
        return {
            "executed": torch.zeros(batch, self.steps, len(weight) + 1, device=weight.device),
            "felt": torch.zeros(batch, weight.shape[1] // 2, device=weight.device),
        }

    def step(
        self, state: State, proprio: Float[Tensor, "B F"], dt: Float[Tensor, " B"]
    ) -> tuple[Float[Tensor, "B K E"], State]:
        """The executed actions (normalised), the newest last, each followed by 1 if it is known and 0 if not.

        The first observation of an episode, 0 s after nothing, tells of no action.
        """
        velocity = (proprio - state["felt"]) / dt.clamp_min(self.action_dt)[:, None]
        action = self.inverse(torch.cat([velocity, proprio], dim=-1)).float()
        steps = (dt / self.action_dt).round().long()
        executed = _push(state["executed"], functional.pad(action, (0, 1), value=1.0), steps)
        return executed, {"executed": executed, "felt": proprio}


def known(executed: Float[Tensor, "*B K E"]) -> Float[Tensor, "*B K"]:
    """1 for steps that are known."""
    return executed[..., -1]


def misfit(actions: Float[Tensor, "*B K A"], executed: Float[Tensor, "*#B K E"]) -> Float[Tensor, "*B K"]:
    """Mean squared difference of actions and executed ones."""
    return (actions - executed[..., :-1]).square().mean(-1)


def _push(held: Float[Tensor, "B K E"], new: Float[Tensor, "B E"], steps: Int[Tensor, " B"]) -> Float[Tensor, "B K E"]:
    """Everything moves forward by some steps, and the new fills what has become free at the end."""
    source = torch.arange(held.shape[1], device=held.device) + steps[:, None]
    index = source.clamp(max=held.shape[1] - 1)[..., None].expand_as(held)
    return torch.where((source < held.shape[1])[..., None], held.gather(1, index), new[:, None])


def _signs(samples: int, shape: tuple[int, int]) -> Float[Tensor, "N H A"]:
    """Flips that make N noises of one, the given noise first: each is standard normal, and they are uncorrelated."""
    signs = 2.0 * torch.randint(2, (samples, *shape), generator=torch.Generator().manual_seed(0)) - 1
    signs[0] = 1
    return signs


def _with(memory: Memory, past: Mapping[str, Tensor]) -> Memory:
    return Memory({**memory.working, **past}, memory.state)
