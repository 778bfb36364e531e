"""An index of past segments of the episode, searched by similarity: retrieval as in RA-DT (arXiv 2410.07071).

Differences: the index is the row's own episode and of fixed size; the embedding is learned with the policy, for which
the answers of the segments found are weighted by how similar they are.
"""

import math

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn
from torch.nn import functional

from robomem.errors import RobomemError
from robomem.policies.memory.attention import TokenPool
from robomem.policies.memory.base import MemoryModule, State, select
from robomem.policies.memory.queue import Queue, take
from robomem.policies.memory.reader import Entries, EntryReader
from robomem.policies.tokens import Layout


class Retrieval(MemoryModule):
    """Segments of `seconds` each, of which those most similar to the one that is going on are read.

    A segment is the mean of its observations, and so is its key the mean of their embeddings. When the index is full,
    the oldest segment is forgotten.
    """

    def __init__(
        self,
        layout: Layout,
        *,
        capacity: int = 32,
        seconds: float = 0.5,
        top: int = 4,
        embedding: int = 64,
        queries: int = 4,
        heads: int = 2,
    ) -> None:
        """Build an empty index.

        Args:
            layout: Of the tokens to remember.
            capacity: Segments in the index.
            seconds: After which a segment ends.
            top: Segments that are read.
            embedding: Size of a key.
            queries: Learned queries that pool the patches of an observation for its embedding.
            heads: Of the attention.

        Raises:
            RobomemError: more are to be read than there are.
        """
        super().__init__(layout)
        if top > capacity:
            raise RobomemError(f"top={top} segments cannot be read of capacity={capacity}; set top <= capacity")
        self.capacity, self.seconds, self.top, self.embedding = capacity, seconds, top, embedding
        self.pool = TokenPool(layout, queries)
        self.embed = nn.Linear((queries + 1) * self.channels, embedding)
        self.log_scale = nn.Parameter(torch.tensor(2.3))
        self.threshold = nn.Parameter(torch.tensor(0.5))
        self.reader = EntryReader(self.channels, layout.patches, heads, layout.appearance)

    def init(self, batch: int) -> State:
        """No segment."""
        weight = self.embed.weight
        return {
            "segments": weight.new_zeros(batch, self.capacity, self.layout.patches, self.channels),
            "keys": weight.new_zeros(batch, self.capacity, self.embedding),
            "age": torch.zeros(batch, self.capacity, device=weight.device),
            "used": torch.zeros(batch, self.capacity, dtype=torch.bool, device=weight.device),
            **{f"going_{name}": value for name, value in self._nothing(batch).items()},
        }

    def step(self, state: State, tokens: Tensor, dt: Tensor) -> tuple[Tensor, State]:
        """Read, then add the observation to its segment, and the segment to the index if it ends."""
        ones = torch.ones(len(tokens), 1, dtype=torch.bool, device=tokens.device)
        enriched, state = self.scan(state, tokens[:, None], dt[:, None], ones, ~ones)
        return enriched[:, 0], state

    def scan(self, state: State, tokens: Tensor, dt: Tensor, valid: Tensor, is_first: Tensor) -> tuple[Tensor, State]:
        """T steps at once: only what belongs to which segment is found tick by tick."""
        patches = self.layout.perceptual(tokens)
        observed = {"patches": patches.float(), "key": self.embed(self.pool(tokens).flatten(-2)).float()}
        before, after, going, last = self._index(state, observed, dt, valid, is_first)
        segments = torch.cat([state["segments"], going["patches"]], dim=1)
        keys = torch.cat([state["keys"], going["key"]], dim=1)
        place, share = self._search(going["key"], take(keys, before.source), before.used)
        found = Queue(*(part.take_along_dim(place, -1) for part in before))
        read = torch.einsum("btk,btkpd->btpd", share, self._read(patches, take(segments, found.source), found))
        enriched = torch.cat([patches + read, self.layout.cognitive(tokens)[..., None, :]], dim=-2)
        state = {
            "segments": after.contents(segments),
            "keys": after.contents(keys),
            "age": after.age,
            "used": after.used,
        }
        state |= {f"going_{name}": value for name, value in last.items()}
        return torch.where(valid[..., None, None], enriched, tokens), state

    def advance(self, state: State, dt: Tensor) -> State:
        """Segments grow older, and the one that is going on longer."""
        going = _older(_going(state), dt)
        return {
            **state,
            "age": torch.where(state["used"], state["age"] + dt[:, None], 0.0),
            **{f"going_{name}": value for name, value in going.items()},
        }

    def diagnostics(self, state: State, tokens: Tensor) -> dict[str, Tensor]:
        """How much of the answer comes from each segment, and their ages (NaN: empty)."""
        del tokens
        used = state["used"]
        place, share = self._search(state["going_key"][:, None], state["keys"][:, None], used[:, None])
        shares = torch.zeros_like(state["age"]).scatter(1, place[:, 0], share[:, 0])
        return {"attention": shares, "age": state["age"].where(used, torch.nan)}

    def _nothing(self, batch: int) -> State:
        """The segment before its first observation: means of patches, keys and ages, its length, its size."""
        weight = self.embed.weight
        return {
            "patches": weight.new_zeros(batch, self.layout.patches, self.channels),
            "key": weight.new_zeros(batch, self.embedding),
            **{name: torch.zeros(batch, device=weight.device) for name in ("age", "span", "count")},
        }

    def _index(
        self,
        state: State,
        observed: State,
        dt: Float[Tensor, "B T"],
        valid: Bool[Tensor, "B T"],
        is_first: Bool[Tensor, "B T"],
    ) -> tuple[Queue, Queue, State, State]:
        """The index before each tick and after the last, and the segment that is going on at each and after the last.

        The segment of tick t is source C + t of the index.
        """
        queue, segment = Queue.of_state(state["age"], state["used"]), _going(state)
        nothing, before, going = self._nothing(len(dt)), [], []
        # `unbind`, as the gradient of a slice is as large as the whole.
        for t, parts in enumerate(zip(*(value.unbind(1) for value in observed.values()), strict=True)):
            elapsed = torch.where(valid[:, t], dt[:, t], 0.0)
            queue = queue.without(is_first[:, t, None]).older(elapsed)
            segment = select(is_first[:, t], nothing, segment)
            longer = _add(_older(segment, elapsed), dict(zip(observed, parts, strict=True)))
            segment = select(valid[:, t], longer, segment)
            before.append(queue)
            going.append(segment)
            ends = valid[:, t] & (segment["span"] >= self.seconds)
            queue = queue.push(ends, self.capacity + t, segment["age"])
            segment = select(ends, nothing, segment)
        stacked = {name: torch.stack([at[name] for at in going], dim=1) for name in observed}
        return Queue.stack(before), queue, stacked, segment

    def _search(
        self, query: Float[Tensor, "B T E"], keys: Float[Tensor, "B T C E"], used: Bool[Tensor, "B T C"]
    ) -> tuple[Int[Tensor, "B T K"], Float[Tensor, "B T K"]]:
        """Places of the most similar segments, and the shares of their answers; the rest answers nothing."""
        similarity = functional.cosine_similarity(query[..., None, :], keys, dim=-1)
        place = similarity.masked_fill(~used, -math.inf).topk(self.top).indices
        logits = self.log_scale.exp() * (similarity.take_along_dim(place, -1) - self.threshold)
        logits = logits.masked_fill(~used.take_along_dim(place, -1), -math.inf)
        return place, functional.pad(logits, (1, 0)).softmax(-1)[..., 1:]

    def _read(
        self, patches: Float[Tensor, "B T P D"], tokens: Float[Tensor, "B T K P D"], found: Queue
    ) -> Float[Tensor, "B T K P D"]:
        """What each of the segments found says to the patches."""
        queries = patches[:, :, None].expand_as(tokens).flatten(0, 2)
        entries = Entries(tokens.flatten(0, 2)[:, None], found.age.flatten()[:, None], found.used.flatten()[:, None])
        return self.reader(queries, entries)[0].view_as(tokens)


def _going(state: State) -> State:
    """The segment that is going on."""
    return {name: state[f"going_{name}"] for name in ("patches", "key", "age", "span", "count")}


def _older(segment: State, dt: Float[Tensor, " B"]) -> State:
    """The same segment `dt` seconds later; one without observations has no age."""
    later = {name: torch.where(segment["count"] > 0, segment[name] + dt, 0.0) for name in ("age", "span")}
    return {**segment, **later}


def _add(segment: State, observed: State) -> State:
    """One more observation of age 0 in the means."""
    share = 1 / (segment["count"] + 1)
    means = {
        name: torch.lerp(segment[name], value, share.view(-1, *[1] * (value.ndim - 1)))
        for name, value in observed.items()
    }
    return {**segment, **means, "age": segment["age"] * (1 - share), "count": segment["count"] + 1}
