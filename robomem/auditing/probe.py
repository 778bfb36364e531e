"""How long after the cue it can still be decoded from the memory, by a linear probe."""

import functools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from numpy import ndarray
from torch import Tensor

from robomem.auditing.replay import replay
from robomem.contract import Memory, Observation, Policy
from robomem.episode import Episode
from robomem.intervals import wilson

FEATURES = 512
"""Larger values are hashed down to so many numbers (a count sketch keeps inner products on average)."""
FOLDS = 5
PENALTIES = tuple(10.0**power for power in range(-4, 3))
"""Of the ridge regression to choose from, relative to the mean squared length of the features."""
MOST_POINTS = 64
"""Ticks after the cue at which the probe is fitted, at most."""
FEWEST = 20
"""Episodes below which no probe is fitted."""


@dataclass(frozen=True)
class Sighting:
    """One tick after the cue has vanished, in one episode."""

    ticks_after_cue: int
    cue: int
    memory: Float[ndarray, " F"]
    """Features of the memory."""
    observation: Float[ndarray, " G"]
    """Features of what is seen at this very tick: what needs no memory."""


def sightings(policy: Policy, episodes: Sequence[Episode]) -> Iterator[Sighting]:
    """The ticks after the cue of those episodes whose provenance says what the cue was and when it ended."""
    labelled = [episode for episode in episodes if {"cue", "cue_end"} <= episode.provenance.keys()]
    if not labelled:
        return
    for moment in replay(policy, labelled):
        memory = memory_features(moment.memory)
        observation = _features(_pixels(moment.observation))
        for index, row in enumerate(moment.rows):
            label = labelled[row].provenance
            after = moment.tick - int(label["cue_end"])
            if after >= 0:
                yield Sighting(after, int(label["cue"]), memory[index], observation[index])


def retention(seen: Sequence[Sighting]) -> list[dict[str, Any]]:
    """Cross-validated accuracy of decoding the cue against ticks after it.

    Returns:
        For some ticks, as long as at least `FEWEST` episodes and half of all last: `ticks_after_cue`, `accuracy` with
        `low` and `high`, `episodes`, `chance` (share of the most frequent cue) and `from_observation`, the accuracy
        that the newest observation alone gives (a demonstrator on its way reveals the cue).
    """
    by_tick: dict[int, list[Sighting]] = {}
    for sighting in seen:
        by_tick.setdefault(sighting.ticks_after_cue, []).append(sighting)
    if not by_tick:
        return []
    fewest = max(FEWEST, len(by_tick[min(by_tick)]) // 2)
    ticks = [tick for tick in sorted(by_tick) if len(by_tick[tick]) >= fewest]
    return [_point(tick, by_tick[tick]) for tick in ticks[:: -(-len(ticks) // MOST_POINTS) or 1]]


def decode(features: Float[ndarray, "N F"], labels: Int[ndarray, " N"], seed: int = 0) -> Bool[ndarray, " N"]:
    """Which labels a linear probe gets right, each predicted by one fitted to the other folds."""
    order = np.random.default_rng(seed).permutation(len(labels))
    order = order[np.argsort(labels[order], kind="stable")]
    fold = np.empty(len(labels), int)
    fold[order] = np.arange(len(labels)) % FOLDS  # each label is spread evenly over the folds
    right = np.empty(len(labels), bool)
    for held in range(FOLDS):
        train, test = fold != held, fold == held
        right[test] = _ridge(features[train], labels[train], features[test]) == labels[test]
    return right


def memory_features(memory: Memory) -> Float[ndarray, "B F"]:
    """Numbers that a probe reads: the long-term state, or the working tokens of a policy without one."""
    return _features(memory.state if any(t.numel() for t in memory.state.values()) else memory.working)


def _point(tick: int, seen: Sequence[Sighting]) -> dict[str, Any]:
    labels = np.array([sighting.cue for sighting in seen])
    right = decode(np.stack([sighting.memory for sighting in seen]), labels)
    current = decode(np.stack([sighting.observation for sighting in seen]), labels)
    accuracy = wilson(int(right.sum()), len(right))
    assert accuracy is not None
    return {
        "ticks_after_cue": tick,
        "accuracy": accuracy.rate,
        "low": accuracy.low,
        "high": accuracy.high,
        "episodes": len(labels),
        "chance": float(np.unique(labels, return_counts=True)[1].max() / len(labels)),
        "from_observation": float(current.mean()),
    }


def _ridge(x: Float[ndarray, "N F"], labels: Int[ndarray, " N"], new: Float[ndarray, "M F"]) -> Int[ndarray, " M"]:
    """Labels of new points by ridge regression to one-hot targets, in its dual form.

    The penalty is the one with the smallest leave-one-out error on the given points.
    """
    classes, index = np.unique(labels, return_inverse=True)
    targets = np.eye(len(classes))[index]
    shares = targets.mean(0)
    centre = x.mean(0)
    scale = max(np.linalg.norm(x - centre) / np.sqrt(len(x)), 1e-9)
    x, new = (x - centre) / scale, (new - centre) / scale
    values, vectors = np.linalg.eigh(x @ x.T)
    values = values.clip(0)

    def left_out(penalty: float) -> float:
        hat = (vectors * (values / (values + penalty))) @ vectors.T + 1 / len(x)
        return float(np.square((targets - hat @ targets) / (1 - np.diag(hat)[:, None])).sum())

    penalty = min(PENALTIES, key=left_out)
    weights = (vectors / (values + penalty)) @ (vectors.T @ (targets - shares))
    return classes[(new @ x.T @ weights + shares).argmax(1)]


def _pixels(observation: Observation) -> dict[str, Tensor]:
    images = {name: image.float() / 255 for name, image in observation.images.items()}
    return {**images, "proprio": observation.proprio}


def _features(tensors: Mapping[str, Tensor]) -> Float[ndarray, "B F"]:
    flat = torch.cat([tensor.float().reshape(len(tensor), -1) for tensor in tensors.values()], dim=1)
    flat = torch.nan_to_num(flat, nan=0.0, posinf=0.0, neginf=0.0).cpu()
    if flat.shape[1] <= FEATURES:
        return flat.double().numpy()
    bucket, sign = _hash(flat.shape[1])
    return torch.zeros(len(flat), FEATURES).index_add_(1, bucket, flat * sign).double().numpy()


@functools.cache
def _hash(size: int) -> tuple[Tensor, Tensor]:
    """Bucket and sign of each of `size` numbers."""
    generator = torch.Generator().manual_seed(size)
    bucket = torch.randint(FEATURES, (size,), generator=generator)
    return bucket, torch.randint(2, (size,), generator=generator) * 2.0 - 1
