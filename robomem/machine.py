"""What a machine has of what RoboMem needs: processor, renderer, codecs, packages, assets."""

import importlib.metadata
import importlib.util
import os
import platform
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from robomem.errors import RobomemError

GIB = 2**30

_EXTRAS = ("sim", "rlds", "dev")
"""What only part of RoboMem needs; of these the demo needs `sim`."""


@dataclass(frozen=True)
class Check:
    """One thing that was looked for."""

    area: str
    name: str
    found: str
    """What there is, for a person to read."""
    ok: bool = True
    required: bool = True
    """False if only part of RoboMem needs it."""
    fix: str = ""
    """The command that brings what is missing, or what to do where no command can."""


def inspect_machine() -> Iterator[Check]:
    """Look for everything; each check is yielded as soon as it is known."""
    yield from _computer()
    yield _gpu()
    yield _vulkan()
    yield from _codecs()
    yield from _packages()
    yield _assets()


def _computer() -> Iterator[Check]:
    import psutil

    version = platform.python_version()
    python_ok = version.startswith("3.12.")
    yield Check("machine", "Python", version, ok=python_ok, fix="make clean setup")
    yield Check("machine", "processor", f"{len(os.sched_getaffinity(0))} cores, {platform.machine()}")
    memory = psutil.virtual_memory().total / GIB
    yield Check(
        "machine", "memory", f"{memory:.0f} GiB", ok=memory > 7, required=False, fix="8 GiB or more run the demo"
    )
    free = shutil.disk_usage(Path.cwd()).free / GIB
    yield Check("machine", "disk", f"{free:.0f} GiB free here", ok=free > 5, fix="free at least 5 GiB")


def _gpu() -> Check:
    query = ["nvidia-smi", "--query-gpu=name,memory.total,driver_version", "--format=csv,noheader"]
    try:
        answer = subprocess.run(query, capture_output=True, text=True, timeout=60, check=True).stdout.strip()
    except FileNotFoundError:
        return Check("machine", "GPU", "no NVIDIA GPU; the processor does everything")
    except (subprocess.CalledProcessError, subprocess.TimeoutExpired) as error:
        found = f"nvidia-smi fails: {error}"
        return Check("machine", "GPU", found, ok=False, required=False, fix="reinstall the NVIDIA driver")
    return Check("machine", "GPU", "; ".join(answer.splitlines()))


def _vulkan() -> Check:
    from robomem.sim.vulkan import check_vulkan

    try:
        info = check_vulkan()
    except RobomemError as error:
        return Check("rendering", "Vulkan", str(error).split(";")[0], ok=False, fix="make system")
    kind = "software" if info.software else "GPU"
    return Check("rendering", "Vulkan", f"{info.version}, {info.driver} ({kind}), SAPIEN renders")


def _codecs() -> Iterator[Check]:
    if importlib.util.find_spec("av") is None:
        yield Check("video", "PyAV", "not installed", ok=False, fix="make setup")
        return
    import av.codec

    for label, encoder in {"H.264": "libx264", "AV1": "libsvtav1"}.items():
        try:
            found, ok = f"PyAV encoder {av.codec.Codec(encoder, 'w').name}", True
        except ValueError:
            found, ok = f"PyAV was built without {encoder}", False
        yield Check("video", label, found, ok=ok, fix="make setup")
    path = shutil.which("ffmpeg")
    yield Check("video", "ffmpeg", path or "not on the PATH, nor needed: PyAV has its own", required=False)


def _packages() -> Iterator[Check]:
    from packaging.requirements import Requirement

    for line in importlib.metadata.requires("robomem") or ():
        requirement = Requirement(line)
        extra = next(
            (e for e in ("", *_EXTRAS) if not requirement.marker or requirement.marker.evaluate({"extra": e})), None
        )
        if extra is None:  # for another kind of machine
            continue
        area = f"packages [{extra}]" if extra else "packages"
        wanted = f"wanted {requirement.specifier}"
        try:
            version = importlib.metadata.version(requirement.name)
        except importlib.metadata.PackageNotFoundError:
            found, ok = f"not installed, {wanted}", False
        else:
            ok = requirement.specifier.contains(version, prereleases=True)
            found = version if ok else f"{version}, {wanted}"
        yield Check(area, requirement.name, found, ok=ok, required=extra in ("", "sim"), fix="make setup")


def _assets() -> Check:
    root = Path(os.environ.get("MS_ASSET_DIR", Path.home() / ".maniskill")) / "data"
    mug = root / "assets/mani_skill2_ycb/models/025_mug"
    fix = f"{sys.executable} -m mani_skill.utils.download_asset ycb --non-interactive"
    found = str(mug) if mug.is_dir() else f"not in {root}; only the ShellGame tasks need it"
    return Check("assets", "YCB mug", found, ok=mug.is_dir(), required=False, fix=fix)
