"""Evict, then compress: the memory of the Compressive Transformer (arXiv 1911.05507).

Differences: ages are seconds and mark keys only; unused entries are masked; the compression is learned from the
policy's loss alone, without the auxiliary reconstruction of attention.
"""

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from robomem.errors import RobomemError
from robomem.policies.memory.base import MemoryModule, State
from robomem.policies.memory.queue import Queue, take
from robomem.policies.memory.reader import Entries, EntryReader
from robomem.policies.tokens import Layout


class Compressive(MemoryModule):
    """The last observations as they were, and older ones by blocks: C observations become one entry of as many tokens.

    When `recent` entries are full, the oldest block of them is compressed. So `recent + C * compressed` observations
    are within reach.
    """

    def __init__(self, layout: Layout, *, recent: int = 5, compressed: int = 8, rate: int = 4, heads: int = 2) -> None:
        """Build an empty memory.

        Args:
            layout: Of the tokens to remember.
            recent: Observations that are kept as they were.
            compressed: Entries of compressed ones.
            rate: C, observations in a block.
            heads: Of the attention.

        Raises:
            RobomemError: a block is larger than what is recent.
        """
        super().__init__(layout)
        if rate > recent:
            raise RobomemError(f"rate={rate} observations cannot be evicted from recent={recent}; set rate <= recent")
        self.recent, self.compressed, self.rate = recent, compressed, rate
        self.reader = EntryReader(self.channels, layout.patches, heads, layout.appearance)
        self.compress = nn.Linear(rate * self.channels, self.channels)
        with torch.no_grad():  # begin near the mean of the block, in which its content can still be recognised
            nn.init.normal_(self.compress.weight, std=0.01)
            self.compress.weight += torch.eye(self.channels).repeat(1, rate) / rate
            nn.init.zeros_(self.compress.bias)

    def init(self, batch: int) -> State:
        """No entry."""
        weight, state = self.compress.weight, {}
        for name, size in (("recent", self.recent), ("compressed", self.compressed)):
            state[name] = weight.new_zeros(batch, size, self.layout.patches, self.channels)
            state[f"{name}_age"] = torch.zeros(batch, size, device=weight.device)
            state[f"{name}_used"] = torch.zeros(batch, size, dtype=torch.bool, device=weight.device)
        return state

    def step(self, state: State, tokens: Tensor, dt: Tensor) -> tuple[Tensor, State]:
        """Read, then remember the observation as it came."""
        ones = torch.ones(len(tokens), 1, dtype=torch.bool, device=tokens.device)
        enriched, state = self.scan(state, tokens[:, None], dt[:, None], ones, ~ones)
        return enriched[:, 0], state

    def scan(self, state: State, tokens: Tensor, dt: Tensor, valid: Tensor, is_first: Tensor) -> tuple[Tensor, State]:
        """T steps at once: only which observations are in which entry is found tick by tick."""
        patches = self.layout.perceptual(tokens)
        raw = torch.cat([state["recent"], patches.to(state["recent"].dtype)], dim=1)
        before, after, blocks = self._evict(*_queues(state), dt, valid, is_first)
        squeezed = self.compress(take(raw, blocks).movedim(2, -2).flatten(-2))
        sources = (raw, torch.cat([state["compressed"], squeezed.to(raw.dtype)], dim=1))
        entries = Entries(*(part.flatten(0, 1) for part in _entries(before, sources)))
        read, _ = self.reader(patches.flatten(0, 1), entries)
        enriched = torch.cat([patches + read.view_as(patches), self.layout.cognitive(tokens)[..., None, :]], dim=-2)
        state = {}
        for name, queue, source in zip(("recent", "compressed"), after, sources, strict=True):
            state |= {name: queue.contents(source), f"{name}_age": queue.age, f"{name}_used": queue.used}
        return torch.where(valid[..., None, None], enriched, tokens), state

    def advance(self, state: State, dt: Tensor) -> State:
        """Entries grow older."""
        recent, compressed = (queue.older(dt) for queue in _queues(state))
        return {**state, "recent_age": recent.age, "compressed_age": compressed.age}

    def diagnostics(self, state: State, tokens: Tensor) -> dict[str, Tensor]:
        """Attention of the patches to each entry, recent ones first, and the entries' ages (NaN: empty)."""
        entries = _entries(_queues(state), (state["recent"], state["compressed"]))
        shares = self.reader.weights(self.layout.perceptual(tokens), entries).mean(1)
        return {"attention": shares, "age": entries.age.where(entries.used, torch.nan)}

    def _evict(
        self,
        recent: Queue,
        compressed: Queue,
        dt: Float[Tensor, "B T"],
        valid: Bool[Tensor, "B T"],
        is_first: Bool[Tensor, "B T"],
    ) -> tuple[tuple[Queue, Queue], tuple[Queue, Queue], Int[Tensor, "B T C"]]:
        """Both queues before each tick, both after the last, and which block each tick would compress."""
        before, blocks = [], []
        last = torch.arange(self.recent, device=dt.device) >= self.recent - self.rate
        for t in range(dt.shape[1]):
            elapsed = torch.where(valid[:, t], dt[:, t], 0.0)
            recent, compressed = (q.without(is_first[:, t, None]).older(elapsed) for q in (recent, compressed))
            before.append((recent, compressed))
            blocks.append(recent.source[:, -self.rate :])
            full = valid[:, t] & recent.used[:, -1]
            compressed = compressed.push(full, self.compressed + t, recent.age[:, -self.rate :].mean(1))
            recent = recent.without(full[:, None] & last).push(valid[:, t], self.recent + t, torch.zeros_like(elapsed))
        recents, compresseds = zip(*before, strict=True)
        return (Queue.stack(recents), Queue.stack(compresseds)), (recent, compressed), torch.stack(blocks, dim=1)


def _queues(state: State) -> tuple[Queue, Queue]:
    """Recent and compressed entries, each the source of its own place."""
    recent, compressed = (Queue.of_state(state[f"{n}_age"], state[f"{n}_used"]) for n in ("recent", "compressed"))
    return recent, compressed


def _entries(queues: tuple[Queue, Queue], sources: tuple[Tensor, Tensor]) -> Entries:
    """All that is held, recent entries first."""
    tokens = torch.cat([take(source, queue.source) for queue, source in zip(queues, sources, strict=True)], dim=-3)
    return Entries(tokens, *(torch.cat([getattr(q, part) for q in queues], dim=-1) for part in ("age", "used")))
