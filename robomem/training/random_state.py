"""The state of all random number generators as JSON values."""

import random
from collections.abc import Mapping
from typing import Any

import numpy as np
import torch


def seed_all(seed: int) -> None:
    """Seed the generators of Python, NumPy and PyTorch."""
    random.seed(seed)
    np.random.seed(seed)
    torch.manual_seed(seed)


def get_random_state(device: torch.device) -> dict[str, Any]:
    """The state of the generators, with that of the GPU in use."""
    numpy_state: Any = np.random.get_state(legacy=False)
    inner = numpy_state["state"]
    return {
        "python": random.getstate(),
        "numpy": {**numpy_state, "state": {"key": inner["key"].tolist(), "pos": inner["pos"]}},
        "torch": _to_hex(torch.get_rng_state()),
        "cuda": _to_hex(torch.cuda.get_rng_state(device)) if device.type == "cuda" else None,
    }


def set_random_state(state: Mapping[str, Any], device: torch.device) -> None:
    """Inverse of `get_random_state`; the GPU's state is left alone where there is none of it."""
    version, key, gauss = state["python"]
    random.setstate((version, tuple(key), gauss))
    inner = state["numpy"]["state"]
    np.random.set_state({**state["numpy"], "state": {"key": np.array(inner["key"], np.uint32), "pos": inner["pos"]}})
    torch.set_rng_state(_from_hex(state["torch"]))
    if state["cuda"] and device.type == "cuda":
        torch.cuda.set_rng_state(_from_hex(state["cuda"]), device)


def _to_hex(state: torch.Tensor) -> str:
    return state.numpy().tobytes().hex()


def _from_hex(text: str) -> torch.Tensor:
    return torch.frombuffer(bytearray.fromhex(text), dtype=torch.uint8)
