"""`robomem doctor` on this very machine, and on ones that lack something."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from robomem.errors import RobomemError
from robomem.sim.vulkan import MESA_NEEDED, check_vulkan, mesa_version

ROOT = Path(__file__).parents[1]


def doctor(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    code = "from robomem.cli import main; main()"
    command = [sys.executable, "-c", code, "doctor", *arguments]
    return subprocess.run(command, capture_output=True, text=True, env={**os.environ, **environment}, check=False)


def test_this_machine_has_what_is_needed() -> None:
    result = doctor("--json")
    report = json.loads(result.stdout)
    assert report["ok"], [check for check in report["checks"] if not check["ok"]]
    assert result.returncode == 0
    found = {check["name"]: check["found"] for check in report["checks"]}
    assert "SAPIEN renders" in found["Vulkan"]
    assert found["mani_skill"] == "3.0.1"


def test_missing_driver_is_named_with_its_fix() -> None:
    result = doctor("--json", VK_ICD_FILENAMES="/nowhere.json", VK_DRIVER_FILES="/nowhere.json")
    assert result.returncode == 1
    (missing,) = [check for check in json.loads(result.stdout)["checks"] if check["required"] and not check["ok"]]
    assert (missing["name"], missing["fix"]) == ("Vulkan", "make system")


def test_table_ends_with_the_commands_to_run(tmp_path: Path) -> None:
    result = doctor(MS_ASSET_DIR=str(tmp_path), COLUMNS="120")
    assert "download_asset ycb" in result.stdout
    assert result.stdout.splitlines()[-1] == "all that is needed is here"


def test_vulkan_driver_renders() -> None:
    info = check_vulkan()
    if info.software:
        version = mesa_version(info.version)
        assert version is not None
        assert version >= MESA_NEEDED


def test_no_driver_is_an_error_that_names_the_fix(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VK_ICD_FILENAMES", "/nowhere.json")
    monkeypatch.setenv("VK_DRIVER_FILES", "/nowhere.json")
    with pytest.raises(RobomemError, match=r"no Vulkan driver found.*make system"):
        check_vulkan.__wrapped__()


@pytest.mark.parametrize(
    ("text", "version"),
    [
        ("Mesa 25.0.7-2~bpo12+1 (LLVM 15.0.6)", (25, 0)),
        ("Mesa 22.3.6 (LLVM 15.0.6)", (22, 3)),
        ("570.124.06", None),
    ],
)
def test_mesa_version(text: str, version: tuple[int, int] | None) -> None:
    assert mesa_version(text) == version


def test_install_script_is_quick_and_silent_when_nothing_is_missing() -> None:
    script = ["bash", "sim/install_vulkan.sh", sys.executable]
    result = subprocess.run(script, cwd=ROOT, capture_output=True, text=True, stdin=subprocess.DEVNULL, check=True)
    assert result.stdout.startswith("Vulkan: ")
