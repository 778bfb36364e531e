"""Where tensors live."""

from textwrap import shorten

import torch

from robomem.errors import RobomemError


def find_device(name: str) -> torch.device:
    """The device of a name; `auto` is the GPU if there is one, otherwise the CPU.

    Raises:
        RobomemError: no such device on this machine.
    """
    if name == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        device = torch.device(name)
        torch.empty(1, device=device)
    except (RuntimeError, AssertionError) as error:
        reason = shorten(str(error).split("\n")[0], 120, placeholder=" ...")
        raise RobomemError(f"device={name} cannot be used here ({reason}); set device=auto or device=cpu") from error
    return device
