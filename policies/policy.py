"""Encoder x memory x head, assembled into a policy of the contract."""

from collections.abc import Mapping
from typing import Any

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn
from torch.nn import functional

from robomem.contract import ActionChunk, Memory, Observation, Prefix, Window
from robomem.policies.encoders.base import Encoder
from robomem.policies.heads.base import Head, Sample
from robomem.policies.heads.pointer import Pointer
from robomem.policies.memory.base import MemoryModule, State
from robomem.policies.normalise import Affine
from robomem.policies.tokens import Percept
from robomem.spec import PolicySpec
from robomem.statistics import Statistics


class MemoryPolicy(nn.Module):
    """`robomem.contract.Policy`: tokens of an observation, enriched by memory, pointed at and turned into actions."""

    def __init__(
        self,
        *,
        spec: PolicySpec,
        statistics: Statistics,
        encoder: Encoder,
        memory: MemoryModule,
        pointer: Pointer,
        head: Head,
        outcome_weight: float,
        keyframe_weight: float,
    ) -> None:
        """Assemble; see `robomem.policies.build.build_policy`."""
        super().__init__()
        self.spec = spec
        self.encoder, self.memory, self.pointer, self.head = encoder, memory, pointer, head
        self.outcome_weight, self.keyframe_weight = outcome_weight, keyframe_weight
        self.past = head.shape[0] - spec.horizon
        self.action = Affine.of_range(statistics.action)

    def init_memory(self, batch_size: int) -> Memory:
        """Nothing seen: zero working tokens and the module's initial state."""
        layout, device = self.memory.layout, self.action.scale.device
        blank = Percept(
            torch.zeros(batch_size, layout.tokens, layout.channels, device=device),
            torch.zeros(batch_size, layout.patches, 2, device=device),
            torch.zeros(batch_size, self.encoder.proprio.size, device=device),
        )
        return Memory(blank._asdict(), self.memory.init(batch_size))

    def observe(self, memory: Memory, observation: Observation, dt: Float[Tensor, " B"]) -> Memory:
        """Encode, read and write; `dt` in seconds."""
        percept = self.encoder(observation)
        tokens, state = self.memory.step(memory.state, percept.tokens, dt.float())
        return Memory(percept._replace(tokens=tokens)._asdict(), state)

    def plan(self, memory: Memory, noise: Float[Tensor, "B H A"], prefix: Prefix | None = None) -> ActionChunk:
        """The next chunk in physical units, within the limits of the specification."""
        sample = self._sample(memory, noise, prefix)
        actions = self.action.inverse(sample.actions[:, self.past :].float())
        low, high = (actions.new_tensor(limit) for limit in (self.spec.action.low, self.spec.action.high))
        actions = actions.clamp(low, high)
        if prefix:  # to the last bit, which normalisation may cost
            actions = torch.where(prefix.weight[..., None] == 1, prefix.actions, actions)
        return ActionChunk(actions)

    def _sample(self, memory: Memory, noise: Float[Tensor, "B H A"], prefix: Prefix | None = None) -> Sample:
        """Past and future actions, normalised; the past, which nobody acts on, is made from the same noise's digits."""
        percept = Percept(*(memory.working[name] for name in Percept._fields))
        if prefix:
            committed = functional.pad(self.action(prefix.actions), (0, 0, self.past, 0))
            prefix = Prefix(committed, functional.pad(prefix.weight, (self.past, 0)))
        noise = torch.cat([redrawn(noise[:, : self.past]), noise], dim=1)
        return self.head.sample(self.pointer(percept).context, noise, prefix)

    def loss(self, window: Window, memory: Memory) -> tuple[dict[str, Tensor], Memory]:
        """Action loss, and how far the demonstrator's goal is from what is pointed at while it moves.

        Everything runs as in `observe` and `plan`, over all ticks at once where they do not depend on each other.
        """
        batch, ticks = window.dt.shape
        percept = self.encoder(_flat(window.observation))
        tokens = percept.tokens.unflatten(0, (batch, ticks))
        tokens, state = self.memory.scan(memory.state, tokens, window.dt, window.valid, window.is_first)
        percept = percept._replace(tokens=tokens.flatten(0, 1))
        pointing = self.pointer(percept)
        weight = self._importance(window).flatten()
        actions, valid = self._targets(window)
        losses = {"action": self.head.loss(pointing.context, self.action(actions), weight[:, None] * valid)}
        if self.outcome_weight:
            error = self.pointer.error(pointing, self.encoder.proprio.place(window.outcome.flatten(0, 1)))
            losses["outcome"] = self.outcome_weight * _mean(error, weight * _moving(window.actions.flatten(0, 1)))
        newest = {name: value.unflatten(0, (batch, ticks))[:, -1] for name, value in percept._asdict().items()}
        return losses, Memory(newest, state)

    def _targets(self, window: Window) -> tuple[Float[Tensor, "N K A"], Bool[Tensor, "N K"]]:
        """The actions of all ticks that the head learns, and which of them there are.

        Past actions among them are learned only by what remembers them (Past-Token Prediction, arXiv 2505.09561).
        """
        first = self.spec.horizon - self.past
        actions = torch.cat([window.past_actions[:, :, first:], window.actions], dim=2)
        valid = torch.cat([window.past_valid[:, :, first:], window.action_valid], dim=2)
        return actions.flatten(0, 1), valid.flatten(0, 1)

    def _importance(self, window: Window) -> Float[Tensor, "B T"]:
        """Weight of each tick: more where the demonstrator changes what it does, 0 on padding.

        Between such moments the next action can be told from the motion itself, and a policy that learns to carry on
        never learns to choose (Keyframe-Focused Visual Imitation Learning, arXiv 2106.06452).
        """
        change = (self.action(window.actions[:, :, 0]) - self.action(window.previous_action)).abs().amax(-1)
        return window.valid * (1 + self.keyframe_weight * change.clamp(max=1))

    def stored(self, config: Mapping[str, Any]) -> dict[str, Any]:
        """The configuration that builds this policy for the weights of a checkpoint, without any other file."""
        return {**config, "encoder": self.encoder.stored(config["encoder"])}

    def diagnostics(self, memory: Memory) -> dict[str, Tensor]:
        """What the memory module offers to look at, for the newest tick, (B, ...) each.

        And `iterations`: how often the core of the head's trunk runs in each evaluation, in the mean of a plan.
        """
        state: State = memory.state
        noise = torch.zeros(len(memory.working["tokens"]), self.spec.horizon, self.spec.action.size)
        iterations = self._sample(memory, noise.to(memory.working["tokens"])).iterations.mean(1)
        return {**self.memory.diagnostics(state, memory.working["tokens"]), "iterations": iterations}


def redrawn(noise: Float[Tensor, "B K A"]) -> Float[Tensor, "B K A"]:
    """Standard normal noise that is as good as independent of the given: quantiles of its lower digits.

    A head that learned past and future from independent noise would otherwise get the same for both.
    """
    digits = (torch.special.ndtr(noise.double()) * 2**12 + 0.5).frac()  # zeros stay zeros
    return torch.special.ndtri(digits.clamp(1e-9, 1 - 1e-9)).to(noise.dtype)


def _flat(observation: Observation) -> Observation:
    """(B, T, ...) to (B * T, ...)."""
    return observation.map(lambda tensor: tensor.flatten(0, 1))


def _moving(actions: Float[Tensor, "B H A"]) -> Bool[Tensor, " B"]:
    """Ticks at which the demonstrator acts: before, its goal may not be decided (an action of zeros holds still)."""
    return actions[:, 0].abs().amax(-1) > 1e-3


def _mean(values: Float[Tensor, " B"], weight: Float[Tensor, " B"]) -> Tensor:
    return (values * weight).sum() / weight.sum().clamp_min(1)
