"""Tensors in safetensors files, with errors that a user can act on."""

import re
from collections.abc import Mapping
from pathlib import Path

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor

from robomem.errors import RobomemError


def save_tensors(path: Path, tensors: Mapping[str, Tensor]) -> None:
    """Write tensors of any device; those that share memory are written each for itself.

    Raises:
        OSError: the disk is full or forbidden.
    """
    copies = {
        name: tensor.detach().to("cpu", copy=True, memory_format=torch.contiguous_format)
        for name, tensor in tensors.items()
    }
    try:
        save_file(copies, path)
    except SafetensorError as error:
        if code := re.search(r"os error (\d+)", str(error)):
            raise OSError(int(code[1]), str(error), str(path)) from error
        raise


def load_tensors(path: Path, device: torch.device | str = "cpu") -> dict[str, Tensor]:
    """Tensors of a file, in memory of their own.

    Raises:
        RobomemError: the file is missing or damaged.
    """
    try:
        # The file is mapped: without a copy a tensor's bytes, and their alignment, would be those of the file.
        return {name: tensor.to(device, copy=True) for name, tensor in load_file(path).items()}
    except FileNotFoundError as error:
        raise RobomemError(f"{path} is missing; copy the folder again as a whole, or use another") from error
    except SafetensorError as error:
        raise RobomemError(f"{path} is damaged ({error}); copy it again, or use another") from error
