"""Spatial memory: what was seen together with where attention was, as in SAM2Act+ (arXiv 2501.18564).

Differences: the where-map is the module's own attention, not the head's prediction, which a memory never sees; the
temporal code is by age in seconds, not by steps; an empty memory is masked.
"""

from typing import cast

import torch
from jaxtyping import Float
from torch import Tensor, nn

from robomem.policies.memory.attention import FeedForward, silence
from robomem.policies.memory.base import MemoryModule, State
from robomem.policies.memory.queue import Queue, remember, take
from robomem.policies.memory.reader import Entries, EntryReader
from robomem.policies.tokens import Layout


class HeatmapBank(MemoryModule):
    """Keeps the last few maps of feature and place, at least `interval` seconds apart, read by cross-attention."""

    def __init__(
        self, layout: Layout, *, entries: int = 9, layers: int = 1, heads: int = 2, interval: float = 0.5
    ) -> None:
        """Build an empty bank.

        Args:
            layout: Of the tokens to remember.
            entries: Maps that are kept.
            layers: Of cross-attention.
            heads: Of the attention.
            interval: Least seconds between two maps.
        """
        super().__init__(layout)
        self.entries, self.interval = entries, interval
        self.encoder = MapEncoder(layout)
        self.layers = nn.ModuleList(_Layer(layout, heads) for _ in range(layers))

    def init(self, batch: int) -> State:
        """No map."""
        weight = next(self.parameters())
        return {
            "maps": weight.new_zeros(batch, self.entries, self.layout.patches, self.channels),
            "age": torch.zeros(batch, self.entries, device=weight.device),
            "used": torch.zeros(batch, self.entries, dtype=torch.bool, device=weight.device),
        }

    def step(self, state: State, tokens: Tensor, dt: Tensor) -> tuple[Tensor, State]:
        """Read, then remember the new map if it is time."""
        ones = torch.ones(len(tokens), 1, dtype=torch.bool, device=tokens.device)
        enriched, state = self.scan(state, tokens[:, None], dt[:, None], ones, ~ones)
        return enriched[:, 0], state

    def scan(self, state: State, tokens: Tensor, dt: Tensor, valid: Tensor, is_first: Tensor) -> tuple[Tensor, State]:
        """T steps at once: only which maps are held is found tick by tick."""
        maps = self.encoder(tokens.flatten(0, 1)).unflatten(0, dt.shape)
        sources = torch.cat([state["maps"], maps.to(state["maps"].dtype)], dim=1)
        before, after = remember(Queue.of_state(state["age"], state["used"]), dt, valid, is_first, self.interval)
        entries = Entries(
            take(sources, before.source).flatten(0, 1), before.age.flatten(0, 1), before.used.flatten(0, 1)
        )
        patches = self.layout.perceptual(tokens).flatten(0, 1)
        for layer in self.layers:
            patches = layer(patches, entries)
        enriched = torch.cat([patches.unflatten(0, dt.shape), self.layout.cognitive(tokens)[..., None, :]], dim=-2)
        state = {"maps": after.contents(sources), "age": after.age, "used": after.used}
        return torch.where(valid[..., None, None], enriched, tokens), state

    def advance(self, state: State, dt: Tensor) -> State:
        """The maps grow older."""
        return {**state, "age": torch.where(state["used"], state["age"] + dt[:, None], 0.0)}

    def diagnostics(self, state: State, tokens: Tensor) -> dict[str, Tensor]:
        """Attention of the patches to each map, the maps' ages (NaN: empty), and where attention is now."""
        patches = self.layout.perceptual(tokens)
        entries = Entries(state["maps"], state["age"], state["used"])
        shares = [cast("_Layer", layer).reader.weights(patches, entries).mean(1) for layer in self.layers]
        ages = state["age"].where(state["used"], torch.nan)
        return {"attention": torch.stack(shares).mean(0), "age": ages, "where": self.encoder.where(tokens)}


class _Layer(nn.Module):
    """Cross-attention to the maps; begins as the identity."""

    def __init__(self, layout: Layout, heads: int) -> None:
        super().__init__()
        self.reader = EntryReader(layout.channels, layout.patches, heads, layout.appearance)
        self.mlp = FeedForward(layout.channels)
        silence(self.mlp.out)

    def forward(self, patches: Float[Tensor, "B P D"], entries: Entries) -> Float[Tensor, "B P D"]:
        patches = patches + self.reader(patches, entries)[0]
        return patches + self.mlp(patches)


class MapEncoder(nn.Module):
    """What is remembered of an observation: its patches, marked by where in each camera's image attention was."""

    grid: Tensor

    def __init__(self, layout: Layout) -> None:
        """Encode maps of a layout."""
        super().__init__()
        self.layout = layout
        channels = layout.channels
        self.query, self.key = nn.Linear(channels, channels), nn.Linear(channels, channels, bias=False)
        self.feature, self.place = nn.Linear(channels, channels), nn.Linear(3, channels, bias=False)
        self.around = nn.Conv2d(channels, channels, kernel_size=3, padding=1, groups=channels)
        self.out = nn.Linear(channels, channels)
        nn.init.normal_(self.out.weight, std=0.01)  # a map begins as its patches, which can be recognised
        nn.init.zeros_(self.out.bias)
        self.register_buffer("grid", layout.grid(), persistent=False)

    def forward(self, tokens: Float[Tensor, "B N D"]) -> Float[Tensor, "B P D"]:
        """The map of each observation."""
        patches = self.layout.perceptual(tokens)
        where = self.where(tokens)[..., None]
        hidden = self.feature(patches) + self.place(torch.cat([where, where * self.grid], dim=-1))
        hidden = hidden + self._images_to_patches(self.around(self._patches_to_images(hidden)))
        return patches + self.out(nn.functional.gelu(hidden))

    def where(self, tokens: Float[Tensor, "B N D"]) -> Float[Tensor, "B P"]:
        """How much of the attention each patch of a camera's image has; 1 is an equal share."""
        query = self.query(self.layout.cognitive(tokens))[:, None]
        logits = (self.key(self.layout.perceptual(tokens)) * query).sum(-1) / query.shape[-1] ** 0.5
        shares = logits.unflatten(1, (self.layout.cameras, -1)).float().softmax(-1)
        return (shares * shares.shape[-1]).flatten(1)

    def _patches_to_images(self, patches: Float[Tensor, "B P D"]) -> Float[Tensor, "C D Y X"]:
        images = patches.unflatten(1, (self.layout.cameras, self.layout.height, self.layout.width))
        return images.flatten(0, 1).movedim(-1, 1)

    def _images_to_patches(self, images: Float[Tensor, "C D Y X"]) -> Float[Tensor, "B P D"]:
        return images.movedim(1, -1).unflatten(0, (-1, self.layout.cameras)).flatten(1, 3)
