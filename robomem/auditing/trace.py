"""What the memory read at each tick of one episode, for a person to look at."""

import math
from pathlib import Path
from typing import Any

import torch
from PIL import Image

from robomem.auditing.replay import replay
from robomem.episode import Episode
from robomem.files import disk_guard
from robomem.video import side_by_side

FRAME_HEIGHT = 128
"""Pixels of a saved frame."""


def trace(policy: Any, episode: Episode, folder: Path) -> dict[str, Any] | None:
    """The policy's `diagnostics` along an episode, whose frames are saved as `frame-<tick>.png`.

    Args:
        policy: A policy; one without `diagnostics` has no trace.
        episode: Recorded episode to replay.
        folder: Receives the frames.

    Returns:
        `seed`, `ticks` and a list over ticks for each diagnostic; None stands for a number that is not finite.

    Raises:
        RobomemError: the disk is full.
    """
    if not hasattr(policy, "diagnostics"):
        return None
    values: dict[str, list[Any]] = {}
    ticks = []
    for moment in replay(policy, [episode]):
        ticks.append(moment.tick)
        with torch.inference_mode():
            diagnostics = policy.diagnostics(moment.memory)
        for name, value in diagnostics.items():
            values.setdefault(name, []).append(_plain(value[0].tolist()))
        images = {name: frames[moment.tick] for name, frames in episode.images.items()}
        with disk_guard(folder, f"frame {moment.tick} of the trace was not saved"):
            folder.mkdir(parents=True, exist_ok=True)
            Image.fromarray(side_by_side(images, FRAME_HEIGHT)).save(folder / f"frame-{moment.tick:03d}.png")
    return {"seed": episode.seed, "ticks": ticks, **values}


def _plain(value: Any) -> Any:
    if isinstance(value, list):
        return [_plain(entry) for entry in value]
    return value if math.isfinite(value) else None
