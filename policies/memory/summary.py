"""Summary tokens at the end of every segment, which accumulate: Memo (arXiv 2510.19732).

Differences: a segment ends by measured time, so that its number of observations varies as the rate does; when all
places are taken, the oldest summary is forgotten.
"""

from functools import partial
from typing import cast

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from robomem.policies.memory.attention import FeedForward, TokenPool, TokenReader
from robomem.policies.memory.base import State, select
from robomem.policies.memory.integrators import ContextTokens, MakeIntegrator
from robomem.policies.memory.reads import ReadMemory, TokenRecurrence
from robomem.policies.tokens import Layout


class SummaryTokens(ReadMemory):
    """What is read are the summaries of past segments and the observations of the one that is going on."""

    def __init__(
        self,
        layout: Layout,
        *,
        summaries: int = 32,
        tokens: int = 4,
        seconds: float = 0.5,
        observations: int = 16,
        heads: int = 2,
        integrator: MakeIntegrator = ContextTokens,
    ) -> None:
        """Build an empty memory.

        Args:
            layout: Of the working tokens.
            summaries: Segments whose summaries are kept.
            tokens: K, of a summary, of what is read, and of the patches of an observation.
            seconds: After which a segment ends.
            observations: After which it ends in any case.
            heads: Of the attention.
            integrator: How what is read enters the working tokens.
        """
        places = {"summary": summaries, "segment": observations}
        recurrence = _Segments(layout.channels, places, tokens, seconds, heads)
        super().__init__(layout, recurrence, integrator, TokenPool(layout, tokens))

    def diagnostics(self, state: State, tokens: Tensor) -> dict[str, Tensor]:
        """Attention to each summary, then to each observation of the segment, and their ages (NaN: empty)."""
        ages = [state[f"{n}_age"].where(state[f"{n}_used"], torch.nan) for n in ("summary", "segment")]
        attention = cast("_Segments", self.recurrence).attention(state, self.prepare(tokens))
        return {"attention": attention, "age": torch.cat(ages, dim=1)}


class _Segments(TokenRecurrence):
    """Summaries and observations, the newest first."""

    def __init__(self, channels: int, places: dict[str, int], tokens: int, seconds: float, heads: int) -> None:
        super().__init__()
        self.places, self.seconds = places, seconds
        self.sizes = {"summary": tokens, "segment": tokens + 1}
        self.questions = nn.Parameter(torch.randn(tokens, channels))
        self.task = nn.Linear(channels, channels)
        self.reader = TokenReader(channels, heads)
        self.topics = nn.Parameter(torch.randn(tokens, channels))
        self.writer = TokenReader(channels, heads)
        self.mlp, self.norm = FeedForward(channels), nn.LayerNorm(channels)

    def init(self, batch: int) -> State:
        """No summary, no observation."""
        state = {}
        for name, places in self.places.items():
            state[name] = self.topics.new_zeros(batch, places, self.sizes[name], self.topics.shape[-1])
            state[f"{name}_age"] = torch.zeros(batch, places, device=self.topics.device)
            state[f"{name}_used"] = torch.zeros(batch, places, dtype=torch.bool, device=self.topics.device)
        return state

    def step(
        self, state: State, inputs: Float[Tensor, "B I D"], dt: Float[Tensor, " B"]
    ) -> tuple[Float[Tensor, "B K D"], State]:
        """Add the observation to its segment, read, and summarise the segment if it ends."""
        state = self.advance(state, dt)
        state = _push(state, "segment", inputs, torch.zeros_like(dt))
        held = _held(state)
        read = self.reader(self._ask(inputs), *held)
        used, age = state["segment_used"], state["segment_age"]
        ends = used[:, -1] | (age.amax(1) >= self.seconds)
        summarised = _push(state, "summary", self._summarise(*held), age.sum(1) / used.sum(1))
        emptied = {name: value for name, value in self.init(len(dt)).items() if name.startswith("segment")}
        return read, select(ends, {**summarised, **emptied}, state)

    def advance(self, state: State, dt: Tensor) -> State:
        """Everything grows older."""
        ages = {
            f"{name}_age": torch.where(state[f"{name}_used"], state[f"{name}_age"] + dt[:, None], 0.0)
            for name in self.places
        }
        return {**state, **ages}

    def attention(self, state: State, inputs: Float[Tensor, "B I D"]) -> Float[Tensor, "B M"]:
        """Of what is read to each summary, then to each observation."""
        shares = self.reader.weights(self._ask(inputs), *_held(state)).mean(1)
        parts = shares.split([self.places[name] * self.sizes[name] for name in self.places], dim=1)
        return torch.cat(
            [part.unflatten(1, (self.places[name], -1)).sum(2) for name, part in zip(self.places, parts, strict=True)],
            dim=1,
        )

    def _ask(self, inputs: Float[Tensor, "B I D"]) -> Float[Tensor, "B K D"]:
        """Queries of what is read; they depend on the cognition token."""
        return self.questions + self.task(inputs[:, -1:])

    def _summarise(
        self, tokens: Float[Tensor, "B M D"], age: Float[Tensor, "B M"], used: Bool[Tensor, "B M"]
    ) -> Float[Tensor, "B K D"]:
        """Summary tokens attend to the segment and to the summaries before it."""
        topics = self.topics.expand(len(tokens), -1, -1)
        topics = topics + self.writer(topics, tokens, age, used)
        return self.norm(topics + self.mlp(topics))


def _push(state: State, name: str, tokens: Float[Tensor, "B K D"], age: Float[Tensor, " B"]) -> State:
    """Tokens enter at the front of `name`, and what was last falls out."""
    front = {name: tokens, f"{name}_age": age, f"{name}_used": torch.ones_like(age, dtype=torch.bool)}
    pushed = {
        part: torch.cat([value[:, None].to(state[part].dtype), state[part][:, :-1]], dim=1)
        for part, value in front.items()
    }
    return {**state, **pushed}


def _held(state: State) -> tuple[Float[Tensor, "B M D"], Float[Tensor, "B M"], Bool[Tensor, "B M"]]:
    """All tokens that are held, their ages, and which of them mean something."""
    tokens, ages, used = [], [], []
    for name in ("summary", "segment"):
        tokens.append(state[name].flatten(1, 2))
        repeated = partial(torch.repeat_interleave, repeats=state[name].shape[2], dim=1)
        ages.append(repeated(state[f"{name}_age"]))
        used.append(repeated(state[f"{name}_used"]))
    return torch.cat(tokens, dim=1), torch.cat(ages, dim=1), torch.cat(used, dim=1)
