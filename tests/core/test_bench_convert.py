"""`robomem bench convert` watches the memory of real conversions."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from robomem.cli import robomem


def test_memory_is_compared_across_sizes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    output = tmp_path / "convert.json"
    sizes = ["--episodes", "3", "--episodes", "1", "--ticks", "2", "--output", str(output)]
    result = CliRunner().invoke(robomem, ["bench", "convert", *sizes])
    assert result.exit_code == 0, result.output
    report = json.loads(output.read_text())
    assert [(run["to"], run["episodes"]) for run in report["conversions"]] == [
        ("lerobot", 1), ("lerobot", 3), ("rlds", 1), ("rlds", 3),
    ]  # fmt: skip
    assert min(run["peak_mib"] for run in report["conversions"]) > 200
    first, second = (run["peak_mib"] for run in report["conversions"] if run["to"] == "rlds")
    assert report["growth"]["rlds"] == second / first
