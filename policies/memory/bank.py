"""The perceptual-cognitive memory bank of MemoryVLA (arXiv 2508.19236), with its known defects corrected.

Corrections: ages are measured seconds; both streams merge by one shared index, weighted by counts; training merges as
inference does; batched with fixed shapes; only output projections start at zero.
"""

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from robomem.policies.memory.base import MemoryModule, State
from robomem.policies.memory.consolidation import Slots, append
from robomem.policies.memory.reader import Entries, EntryReader
from robomem.policies.tokens import Layout


class Bank(MemoryModule):
    """L entries of perceptual (P) and cognitive (1) tokens, read by cross-attention and fused by a gate."""

    def __init__(self, layout: Layout, *, entries: int = 4, heads: int = 2, merge: bool = True) -> None:
        """Build an empty bank's reader.

        Args:
            layout: Of the tokens to remember.
            entries: L, the most that is kept.
            heads: Of the attention.
            merge: Make room by merging the most similar neighbours; otherwise forget the oldest.
        """
        super().__init__(layout)
        self.entries, self.merge = entries, merge
        self.perceptual = Stream(self.channels, layout.patches, heads, layout.appearance)
        self.cognitive = Stream(self.channels, 1, heads)

    def init(self, batch: int) -> State:
        """No entry."""
        weight = self.perceptual.gate.weight
        return {
            "perceptual": weight.new_zeros(batch, self.entries, self.layout.patches, self.channels),
            "cognitive": weight.new_zeros(batch, self.entries, 1, self.channels),
            "age": torch.zeros(batch, self.entries, device=weight.device),
            "count": torch.zeros(batch, self.entries, device=weight.device),
        }

    def step(self, state: State, tokens: Tensor, dt: Tensor) -> tuple[Tensor, State]:
        """Read, then write the tokens as they came (raw, not fused)."""
        ones = torch.ones(len(tokens), 1, dtype=torch.bool, device=tokens.device)
        enriched, state = self.scan(state, tokens[:, None], dt[:, None], ones, ~ones)
        return enriched[:, 0], state

    def scan(self, state: State, tokens: Tensor, dt: Tensor, valid: Tensor, is_first: Tensor) -> tuple[Tensor, State]:
        """T steps at once: entries are weighted means of the old entries and the new observations."""
        sources, before, after = self._consolidate(state, tokens, dt, valid, is_first)
        patches, cognition = self._streams(tokens)
        seen = [torch.einsum("btls,bskd->btlkd", before.weights, source).flatten(0, 1) for source in sources]
        age, used = before.age.flatten(0, 1), before.used.flatten(0, 1)
        perceived = self.perceptual(patches.flatten(0, 1), Entries(seen[0], age, used)).view_as(patches)
        understood = self.cognitive(cognition.flatten(0, 1), Entries(seen[1], age, used)).view_as(cognition)
        enriched = torch.cat([perceived, understood], dim=-2)
        return torch.where(valid[..., None, None], enriched, tokens), _state(sources, after)

    def fold(self, state: State, tokens: Tensor, dt: Tensor, valid: Tensor, is_first: Tensor) -> State:
        """The same state without a read: what is stored does not depend on it."""
        sources, _, after = self._consolidate(state, tokens, dt, valid, is_first)
        return _state(sources, after)

    def advance(self, state: State, dt: Tensor) -> State:
        """Entries grow older."""
        return {**state, "age": torch.where(state["count"] > 0, state["age"] + dt[:, None], 0.0)}

    def diagnostics(self, state: State, tokens: Tensor) -> dict[str, Tensor]:
        """Attention of the patches to each entry, entries' ages (NaN: empty) and counts, and the mean gate."""
        patches = self.layout.perceptual(tokens)
        entries = Entries(state["perceptual"], state["age"], state["count"] > 0)
        read, _ = self.perceptual.reader(patches, entries)
        return {
            "attention": self.perceptual.reader.weights(patches, entries).mean(1),
            "age": state["age"].where(entries.used, torch.nan),
            "count": state["count"],
            "gate": self.perceptual.openness(patches, read).mean((1, 2)),
        }

    def _streams(self, tokens: Float[Tensor, "B T N D"]) -> tuple[Float[Tensor, "B T P D"], Float[Tensor, "B T 1 D"]]:
        return self.layout.perceptual(tokens), self.layout.cognitive(tokens)[..., None, :]

    def _consolidate(
        self, state: State, tokens: Tensor, dt: Tensor, valid: Tensor, is_first: Tensor
    ) -> tuple[list[Tensor], Slots, Slots]:
        """Both streams of the old entries and the new observations; the entries before each tick and after the last."""
        sources = [
            torch.cat([state[name], new.to(state[name].dtype)], dim=1)
            for name, new in zip(("perceptual", "cognitive"), self._streams(tokens), strict=True)
        ]
        return sources, *self._choose(state, sources, dt, valid, is_first)

    @torch.no_grad()
    def _choose(
        self, state: State, sources: list[Tensor], dt: Tensor, valid: Bool[Tensor, "B T"], is_first: Bool[Tensor, "B T"]
    ) -> tuple[Slots, Slots]:
        """Entries before each tick, (B, T, ...), and after the last: which observations they are made of."""
        features = torch.cat([source.flatten(2) for source in sources], dim=-1).float()
        gram: Float[Tensor, "B S S"] = features @ features.transpose(1, 2)
        batch, size = gram.shape[:2]
        identity = torch.eye(self.entries, size, device=gram.device).expand(batch, -1, -1)
        empty = Slots(torch.zeros_like(identity), torch.zeros_like(state["age"]), torch.zeros_like(state["count"]))
        slots = Slots(identity * (state["count"] > 0)[..., None], state["age"], state["count"])
        before = []
        for t in range(dt.shape[1]):
            slots = slots.where(is_first[:, t], empty).older(torch.where(valid[:, t], dt[:, t], 0.0))
            before.append(slots)
            slots = slots.where(valid[:, t], append(slots, self.entries + t, gram, self.merge))
        return Slots(*(torch.stack(parts, dim=1) for parts in zip(*before, strict=True))), slots


def _state(sources: list[Tensor], slots: Slots) -> State:
    """Entries with what they are made of."""
    perceptual, cognitive = (torch.einsum("bls,bskd->blkd", slots.weights, source) for source in sources)
    return {"perceptual": perceptual, "cognitive": cognitive, "age": slots.age, "count": slots.count}


class Stream(nn.Module):
    """Retrieval and gate fusion of one of the two streams: `g * x + (1 - g) * retrieved`."""

    def __init__(self, channels: int, tokens: int, heads: int, appearance: int = 0) -> None:
        """Read entries of as many tokens as the queries have."""
        super().__init__()
        self.reader = EntryReader(channels, tokens, heads, appearance)
        self.gate = nn.Linear(2 * channels, channels)
        nn.init.normal_(self.gate.weight, std=1e-3)  # the gate starts half open
        nn.init.zeros_(self.gate.bias)
        self.novelty = nn.Linear(heads, channels)
        self.dimming = nn.Parameter(torch.zeros(heads))
        if appearance:
            with torch.no_grad():
                self.dimming[0] = 1.5

    def forward(self, current: Float[Tensor, "B K D"], entries: Entries) -> Float[Tensor, "B K D"]:
        """Current tokens fused with what the entries say, marked by how new they are, the new ones dimmed.

        What memory knows stands out from the start, which is what a head needs to begin to choose; by how much, and in
        which direction, is learned.
        """
        read, novelty = self.reader(current, entries)
        gate = self.openness(current, read)
        fused = gate * current + (1 - gate) * read + self.novelty(novelty)
        return fused * torch.exp(-novelty @ self.dimming)[..., None]

    def openness(self, current: Tensor, read: Tensor) -> Float[Tensor, "B K D"]:
        """G in (0, 1): 1 keeps the current token, 0 replaces it by what was read."""
        return torch.sigmoid(self.gate(torch.cat([current, read], dim=-1)))
