"""`robomem bench data` reads the same episodes with LeRobot's loader, a plain TFDS loop, and RoboMem's."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from robomem.cli import robomem


def test_all_loaders_are_timed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    monkeypatch.setenv("HF_DATASETS_CACHE", str(tmp_path / "hf"))
    output = tmp_path / "data.json"
    sizes = ["--episodes", "8", "--ticks", "6", "--items", "2", "--epochs", "2", "--output", str(output)]
    result = CliRunner().invoke(robomem, ["bench", "data", *sizes])
    assert result.exit_code == 0, result.output
    report = json.loads(output.read_text())
    lerobot, ours, plain, rlds = report["loaders"]
    assert (lerobot["ticks"], lerobot["read"]) == (2, 2 * 6)
    for loader in (ours, plain, rlds):
        assert loader["ticks"] == loader["read"] == 2 * 8 * 6
    assert min(row[key] for row in report["loaders"] for key in ("seconds", "cpu_seconds")) > 0
    assert min(report[ratio] for ratio in ("speedup", "cpu_ratio", "rlds_speedup", "rlds_cpu_ratio")) > 0
    assert len(report["memory_mib"]) == len(report["rlds_memory_mib"]) == 2
