"""Which observations a bounded memory keeps, as weights: every entry is a weighted mean of past observations.

Weights make one piece of code serve a single step and a whole window, and need only inner products of the
observations, never their merged features.
"""

from typing import NamedTuple

import torch
from jaxtyping import Bool, Float
from torch import Tensor


class Slots(NamedTuple):
    """L entries in order of time, the used ones first."""

    weights: Float[Tensor, "*B L S"]
    """Of each of S observations in each entry; a used row sums to 1."""
    age: Float[Tensor, "*B L"]
    """Mean age in seconds of the observations in an entry."""
    count: Float[Tensor, "*B L"]  # pyright: ignore[reportIncompatibleMethodOverride] - nobody counts values in it
    """Observations in an entry; 0: unused."""

    @property
    def used(self) -> Bool[Tensor, "*B L"]:
        """Which entries hold something."""
        return self.count > 0

    def where(self, rows: Bool[Tensor, " B"], other: "Slots") -> "Slots":
        """Rows of `other` where `rows` is true, own rows elsewhere."""
        return Slots(*(torch.where(rows.view(-1, *[1] * (a.ndim - 1)), b, a) for a, b in zip(self, other, strict=True)))

    def older(self, dt: Float[Tensor, " B"]) -> "Slots":
        """The same entries `dt` seconds later."""
        return self._replace(age=torch.where(self.used, self.age + dt[:, None], 0.0))


def append(slots: Slots, new: int, gram: Float[Tensor, "B S S"], merge: bool) -> Slots:
    """Add observation `new` (an index into S); a full memory first makes room.

    Args:
        slots: The entries before.
        new: Index of the observation.
        gram: Inner products of the S observations' features.
        merge: Merge the two adjacent entries of largest cosine similarity, weighted by their counts (MemoryVLA,
            arXiv 2508.19236, consolidation); otherwise drop the oldest entry.
    """
    used = slots.used.sum(1)
    one = torch.zeros_like(slots.weights[:, :1])
    one[..., new] = 1
    at = torch.arange(slots.count.shape[1] + 1, device=used.device)[None] == used[:, None]
    weights = torch.where(at[..., None], one, _grow(slots.weights))
    age, count = _grow(slots.age), torch.where(at, 1.0, _grow(slots.count))
    mixing = _merging(weights, count, gram) if merge else _dropping(count)
    full = (used == slots.count.shape[1])[:, None, None]
    mixing = torch.where(full, mixing, torch.eye(count.shape[1], device=used.device)[:-1])
    merged = ((mixing > 0).float() @ count[..., None]).squeeze(-1)
    return Slots(mixing @ weights, (mixing @ age[..., None]).squeeze(-1), merged)


def _merging(
    weights: Float[Tensor, "B K S"], count: Float[Tensor, "B K"], gram: Float[Tensor, "B S S"]
) -> Float[Tensor, "B L K"]:
    """Mixing of K = L + 1 entries into L: the most similar neighbours become their weighted mean."""
    inner = weights @ gram @ weights.transpose(1, 2)
    norm = inner.diagonal(dim1=1, dim2=2).clamp_min(1e-12).sqrt()
    cosine = inner.diagonal(offset=1, dim1=1, dim2=2) / (norm[:, 1:] * norm[:, :-1])
    first = cosine.argmax(1)[:, None, None]
    row = torch.arange(count.shape[1] - 1, device=count.device)[None, :, None]
    column = torch.arange(count.shape[1], device=count.device)[None, None, :]
    together = (row == first) & ((column == first) | (column == first + 1))
    apart = (row < first) & (column == row) | (row > first) & (column == row + 1)
    share = count[:, None] / (together * count[:, None]).sum(-1, keepdim=True).clamp_min(1)
    return torch.where(together, share, apart.float())


def _dropping(count: Float[Tensor, "B K"]) -> Float[Tensor, "L K"]:
    """Mixing that forgets the oldest of K = L + 1 entries."""
    return torch.eye(count.shape[1], device=count.device)[1:]


def _grow(tensor: Tensor) -> Tensor:
    """One more, empty entry."""
    return torch.cat([tensor, torch.zeros_like(tensor[:, :1])], dim=1)
