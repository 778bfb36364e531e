"""A learned gate before any memory that stores entries: keep, update or discard, as in MemCtrl (arXiv 2601.20831)."""

from collections.abc import Callable, Sequence

import torch
from jaxtyping import Float
from torch import Tensor, nn

from robomem.policies.memory.attention import TokenPool
from robomem.policies.memory.base import MemoryModule, State
from robomem.policies.tokens import Layout

KEEP, UPDATE, DISCARD = range(3)


class WriteGate(MemoryModule):
    """Chooses what becomes of an observation: a new entry, the newest entry anew, or nothing. Reading is never gated.

    To write an entry anew, the gate also holds the inner module's state as it would be without its newest entry. The
    choice is the most probable one; its gradient is that of the probabilities (straight-through).
    """

    def __init__(
        self,
        layout: Layout,
        *,
        inner: Callable[[Layout], MemoryModule],
        queries: int = 4,
        hidden: int = 64,
    ) -> None:
        """Put a gate in front of a module.

        Args:
            layout: Of the working tokens.
            inner: Makes the module that stores entries.
            queries: Learned queries that pool the patches of an observation for the decision.
            hidden: Width of the network that decides.
        """
        super().__init__(layout)
        self.inner = inner(layout)
        self.pool = TokenPool(layout, queries)
        self.size = (queries + 1) * self.channels
        self.norm = nn.LayerNorm(self.size)
        self.decide = nn.Linear(2 * self.size + 1, hidden)
        self.choose = nn.Linear(hidden, 3)
        with torch.no_grad():  # begin as the inner module, so that there is something to learn from
            self.choose.bias.copy_(torch.tensor([2.0, 0.0, 0.0]))

    def init(self, batch: int) -> State:
        """Nothing written."""
        inner, like = self.inner.init(batch), self.norm.weight
        return {
            **_named("held", inner),
            **_named("before", inner),
            "written": like.new_zeros(batch, self.size),
            "since": torch.zeros(batch, device=like.device),
        }

    def step(self, state: State, tokens: Tensor, dt: Tensor) -> tuple[Tensor, State]:
        """Read, then keep the observation as a new entry, write the newest entry anew, or leave the entries alone."""
        state = {**state, "since": state["since"] + dt}
        seen, probability = self._decide(state, tokens)
        held, before = _part("held", state), _part("before", state)
        enriched, kept = self.inner.step(held, tokens, dt)
        _, updated = self.inner.step(before, tokens, dt)
        held, before = self.inner.advance(held, dt), self.inner.advance(before, dt)
        written, since = (seen, torch.zeros_like(dt)), (state["written"], state["since"])
        options = [
            {**_named("held", inner), **_named("before", without), "written": last[0], "since": last[1]}
            for inner, without, last in ((kept, held, written), (updated, before, written), (held, before, since))
        ]
        return enriched, _choose(probability, options)

    def advance(self, state: State, dt: Tensor) -> State:
        """Time passes for the inner module, and since the last write."""
        inner = {
            name: value
            for part in ("held", "before")
            for name, value in _named(part, self.inner.advance(_part(part, state), dt)).items()
        }
        return {**state, **inner, "since": state["since"] + dt}

    def diagnostics(self, state: State, tokens: Tensor) -> dict[str, Tensor]:
        """What the inner module offers, and the probabilities to keep, update and discard."""
        return {**self.inner.diagnostics(_part("held", state), tokens), "write": self._decide(state, tokens)[1]}

    def _decide(self, state: State, tokens: Tensor) -> tuple[Float[Tensor, "B F"], Float[Tensor, "B 3"]]:
        """What is seen, pooled, and the probability of each choice.

        It depends on how what is seen differs from what was written last, and on how long ago that was.
        """
        seen = self.norm(self.pool(tokens).flatten(1)).float()
        since = state["since"].log1p()[:, None]
        hidden = self.decide(torch.cat([seen, seen - state["written"], since], dim=-1))
        return seen, self.choose(nn.functional.gelu(hidden)).float().softmax(-1)


def _choose(probability: Float[Tensor, "B 3"], options: Sequence[State]) -> State:
    """Of every row the most probable state, exactly; the gradient reaches the probabilities (straight-through)."""
    best = (torch.arange(len(options), device=probability.device) == probability.argmax(-1, keepdim=True)).long()
    weight = best + probability - probability.detach()
    chosen = {}
    for name, value in options[0].items():
        share = (weight if value.is_floating_point() else best).view(*weight.shape, *[1] * (value.ndim - 1))
        stacked = torch.stack([option[name] for option in options], dim=1)
        chosen[name] = (share * stacked).sum(1).to(value.dtype)
    return chosen


def _named(part: str, state: State) -> State:
    return {f"{part}.{name}": value for name, value in state.items()}


def _part(part: str, state: State) -> State:
    """The state whose names begin with `part`."""
    return {name.removeprefix(f"{part}."): value for name, value in state.items() if name.startswith(f"{part}.")}
