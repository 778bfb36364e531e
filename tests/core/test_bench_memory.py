"""`robomem bench memory` measures real modules and writes what it prints."""

import json
from pathlib import Path

import pytest

from robomem.cli import run


def test_scans_are_timed_against_steps(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "times.json"
    sizes = ["--ticks", "4", "--rows", "2", "--repeats", "1", "--device", "cpu"]
    assert run(["bench", "memory", "none", "flow:cell.jump=true", *sizes, "-o", str(path)]) == 0
    written = json.loads(path.read_text())
    assert (written["ticks"], written["rows"], written["device"]) == (4, 2, "cpu")
    none, flow = written["memories"]
    assert (none["memory"], none["parameters"], none["state"]) == ("none", 0, 0)
    assert flow["state"] == 3 * 128
    assert flow["ratio"] == pytest.approx(flow["steps_ms"] / flow["scan_ms"])
    assert "flow:cell.jump=true" in capsys.readouterr().out


def test_an_unknown_module_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["bench", "memory", "flwo"]) == 1
    assert "did you mean 'flow'?" in capsys.readouterr().err
