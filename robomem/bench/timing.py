"""How long something takes on a device."""

import time
from collections.abc import Callable

import torch


def milliseconds(run: Callable[[], object], device: torch.device) -> float:
    """Time one call, with all that it starts on a GPU."""
    _wait(device)
    start = time.perf_counter()
    run()
    _wait(device)
    return 1000 * (time.perf_counter() - start)


def _wait(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize(device)
