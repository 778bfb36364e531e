"""The Vulkan driver that SAPIEN renders with, found and proven in a process of its own."""

import functools
import json
import re
import signal
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from robomem.errors import RobomemError

MESA_NEEDED = (24, 3)
"""First Mesa whose software driver has the external semaphores that SAPIEN asks for."""

_FIX = "`make system` installs Mesa's software driver, `robomem doctor` shows what there is"
_TIMEOUT = 120.0
"""Seconds; a driver that has not answered by then hangs."""


@dataclass(frozen=True)
class VulkanInfo:
    """A Vulkan device that SAPIEN has created a `RenderSystem` on."""

    driver: str
    """Driver name, such as `llvmpipe` or `NVIDIA`."""
    version: str
    """What the driver says of its version, such as `Mesa 25.0.7`."""
    device: str
    software: bool
    """True if the processor does the rendering."""


@functools.cache
def check_vulkan(device: str = "cpu") -> VulkanInfo:
    """The driver behind a render device of SAPIEN (`cpu` or `cuda`), proven by creating a `RenderSystem`.

    Takes about a second, once per process.

    Raises:
        RobomemError: no driver, one that is too old, or one with which SAPIEN fails, crashes or hangs.
    """
    probe = Path(__file__).with_name("vulkan_probe.py")
    command = [sys.executable, "-P", str(probe), device]
    try:
        result = subprocess.run(command, capture_output=True, text=True, timeout=_TIMEOUT, check=False)
    except subprocess.TimeoutExpired:
        raise RobomemError(f"the Vulkan driver does not answer within {_TIMEOUT:.0f} s; {_FIX}") from None
    devices, _, proof = result.stdout.partition("\n")
    if not devices:
        raise RobomemError(f"no Vulkan driver found ({_last_line(result.stderr)}); {_FIX}")
    info = _pick([VulkanInfo(**entry) for entry in json.loads(devices)], software=device == "cpu")
    if info.software and (mesa := mesa_version(info.version)) and mesa < MESA_NEEDED:
        needed = ".".join(map(str, MESA_NEEDED))
        raise RobomemError(f"{info.version} is too old for software rendering, {needed} is needed; {_FIX}")
    if result.returncode or proof.strip() != "OK":
        raise RobomemError(f"SAPIEN cannot render with {info.driver} ({info.version}): {_failure(result)}; {_FIX}")
    return info


def mesa_version(text: str) -> tuple[int, int] | None:
    """Major and minor version of Mesa in a driver's version text, or None if it is not Mesa's."""
    match = re.search(r"Mesa (\d+)\.(\d+)", text)
    return (int(match[1]), int(match[2])) if match else None


def _pick(devices: list[VulkanInfo], software: bool) -> VulkanInfo:
    """The first device of the wanted kind, or the first one where there is none."""
    if not devices:
        raise RobomemError(f"the Vulkan loader finds no device; {_FIX}")
    return next((info for info in devices if info.software == software), devices[0])


def _failure(result: subprocess.CompletedProcess[str]) -> str:
    if result.returncode < 0:
        return f"the process ended with {signal.Signals(-result.returncode).name}"
    return _last_line(result.stderr)


def _last_line(text: str) -> str:
    lines = text.strip().splitlines()
    return lines[-1] if lines else "no message"
