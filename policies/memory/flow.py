"""Temporal Flow memory: between observations the state flows towards a content, each channel at its own speed.

Observation k predicts a content u and a time scale tau for the interval after it, over which dm/ds = (u - m) / tau. Its
exact solution needs only the measured time: to advance by a + b is to advance by a, then by b.
"""

import math
from collections.abc import Sequence

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional

from robomem.errors import RobomemError
from robomem.policies.memory.base import State
from robomem.policies.memory.recurrent import TIME_SCALES, Cell, keep_logits
from robomem.policies.memory.scan import hold, linear_scan


class Flow(Cell):
    """State m, and the course it is on until the next observation: content u and, by a sigmoid in log space, tau.

    Contents lie within (-1, 1) and the state with them; with `prior` this lets channels settle at one of several values
    and stay there however long nothing happens. An observation reaches it as time passes; with `jump` also at once, by
    a gated write, which depends on how often one observes and not on time alone. A sigmoid never quite closes, so that
    in the end everything leaks away; with `latch` it is a hard one, and what is latched stays bit for bit.
    """

    def __init__(
        self,
        inputs: int,
        *,
        hidden: int = 128,
        prior: bool = False,
        jump: bool = False,
        oscillating: bool = False,
        latch: bool = False,
        time_scales: Sequence[float] = TIME_SCALES,
    ) -> None:
        """Build `hidden` channels.

        Args:
            inputs: I.
            hidden: Channels of m.
            prior: Predict from the prior memory too; then ticks follow each other instead of being scanned at once.
            jump: Write into m at every observation, by a gate.
            oscillating: Channels are pairs that turn while they decay, and so can count and keep a phase.
            latch: A channel can stand still: its rate falls to exactly zero where tau would be the longest.
            time_scales: Bounds of tau in seconds.

        Raises:
            RobomemError: an odd number of channels cannot oscillate.
        """
        super().__init__()
        if oscillating and hidden % 2:
            raise RobomemError(f"oscillating channels are pairs, and hidden={hidden} is odd; use an even number")
        self.features, self.prior, self.oscillating, self.latch = hidden, prior, oscillating, latch
        self.log_bounds = math.log(time_scales[0]), math.log(time_scales[1])
        self.rates = hidden // 2 if oscillating else hidden
        sources = inputs + hidden if prior else inputs
        self.course = nn.Linear(sources, hidden + self.rates)
        self.write = nn.Linear(sources, hidden + self.rates) if jump else None
        self.turns = nn.Parameter(spread_turns(self.rates)) if oscillating else None
        self.reset_parameters()

    @torch.no_grad()
    def reset_parameters(self) -> None:
        """Time scales log-uniform over the channels, at first nearly the same for all inputs; gates open as slowly."""
        self.course.weight[self.features :] *= 0.1
        slow = (torch.arange(self.rates) + 0.5) / self.rates
        self.course.bias[self.features :] = 6 * slow - 3 if self.latch else torch.logit(slow)
        if self.write is not None:
            self.write.weight[self.features :] *= 0.1
            self.write.bias[self.features :] = -keep_logits(self.rates)

    def init(self, batch: int) -> State:
        """Zeros: no memory, on its way to none."""
        bias = self.course.bias
        return {"memory": bias.new_zeros(batch, self.features), "course": bias.new_zeros(batch, len(bias))}

    def step(self, state: State, inputs: Tensor, dt: Tensor) -> tuple[Tensor, State]:
        """Flow for `dt` seconds as the previous observation said, then hear what the new one says."""
        memory = self.advance(state, dt)["memory"]
        sources = torch.cat([inputs, memory], dim=-1) if self.prior else inputs
        if self.write is not None:
            keep, written = self._jump(self.write(sources))
            memory = self._real(keep * self._channels(memory) + written)
        return memory, {"memory": memory, "course": self.course(sources)}

    def scan(self, state: State, inputs: Tensor, dt: Tensor, valid: Tensor, is_first: Tensor) -> tuple[Tensor, State]:
        """All ticks at once, unless each needs the memory of the one before."""
        if self.prior:
            return super().scan(state, inputs, dt, valid, is_first)
        before, after = hold(self.course(inputs), state["course"], valid, is_first)
        decay, drive = self._settle(before, dt)
        if self.write is not None:
            keep, written = self._jump(self.write(inputs))
            decay, drive = keep * decay, keep * drive + written
        memory = self._real(linear_scan(decay, drive, self._channels(state["memory"]), valid, is_first))
        return memory, {"memory": memory[:, -1], "course": after}

    def advance(self, state: State, dt: Tensor) -> State:
        """Flow for `dt` seconds, such as to the moment at which an action will be executed."""
        decay, drive = self._settle(state["course"], dt)
        return {**state, "memory": self._real(decay * self._channels(state["memory"]) + drive)}

    def split(self, course: Float[Tensor, "*B _"]) -> tuple[Tensor, Float[Tensor, "*B K"]]:
        """Content, (*B, K) and complex if it oscillates, and rate 1 / tau in 1/s."""
        content, pace = course[..., : self.features], course[..., self.features :]
        shortest, longest = self.log_bounds
        slow = functional.hardsigmoid(pace) if self.latch else pace.sigmoid()
        speed = (longest - shortest) * (1 - slow)
        rate = math.exp(-longest) * (speed.expm1() if self.latch else speed.exp())
        return self._channels(content.tanh()), rate

    def _settle(self, course: Tensor, dt: Tensor) -> tuple[Tensor, Tensor]:
        content, rate = self.split(course)
        return settle(content, rate, dt, self.turns)

    def _jump(self, raw: Tensor) -> tuple[Tensor, Tensor]:
        """Share of the memory that is kept, and what is written in place of the rest."""
        written, gate = raw[..., : self.features], raw[..., self.features :].sigmoid()
        return 1 - gate, gate * self._channels(written)

    def _channels(self, values: Tensor) -> Tensor:
        return to_complex(values) if self.oscillating else values

    def _real(self, channels: Tensor) -> Tensor:
        return to_real(channels) if self.oscillating else channels


def settle(
    content: Tensor, rate: Float[Tensor, "*#B K"], dt: Float[Tensor, "*B"], turns: Float[Tensor, " K"] | None = None
) -> tuple[Tensor, Tensor]:
    """Exact solution of dm/ds = rate * (u - m) over `dt`, as m(dt) = decay * m + drive.

    With `turns`, m and u are complex: m also turns, that often while it decays by 1 / e, and u enters so that |m| stays
    within the largest |u|: dm/ds = rate * (u - (1 - 2 pi i * turns) * m).

    Args:
        content: u, (*B, K).
        rate: Of decay, 1/s; broadcast.
        dt: Seconds.
        turns: Per time scale.
    """
    exponent = -rate * dt[..., None]
    if turns is not None:
        pole = torch.complex(torch.ones_like(turns), -2 * math.pi * turns)
        exponent, content = exponent * pole, content / pole
    return exponent.exp(), -torch.expm1(exponent) * content


def spread_turns(channels: int) -> Float[Tensor, " channels"]:
    """Turns per time scale between 0 and 2, evenly and in no order, so that each time scale gets slow and fast ones."""
    return 2 * (torch.arange(channels) * (math.sqrt(5) - 1) / 2).frac()


def to_complex(values: Float[Tensor, "*B F"]) -> Tensor:
    """Neighbouring channels as complex ones, (*B, F / 2)."""
    return torch.view_as_complex(values.unflatten(-1, (-1, 2)).contiguous())


def to_real(channels: Tensor) -> Float[Tensor, "*B F"]:
    """The inverse of `to_complex`."""
    return torch.view_as_real(channels).flatten(-2)
