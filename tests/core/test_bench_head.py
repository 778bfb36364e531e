"""`robomem bench head` on every objective and trunk."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from robomem.bench import head
from robomem.cli import robomem

CONFIGS = Path(__file__).parents[2] / "configs"


def options(group: str) -> list[str]:
    return sorted(path.stem for path in (CONFIGS / group).glob("*.yaml"))


def test_every_head_is_timed_on_every_trunk(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(head, "SECONDS", 1e-3)
    result = CliRunner().invoke(robomem, ["bench", "head", "--contexts", "2", "--device", "cpu", "--json"])
    assert result.exit_code == 0, result.output
    report = json.loads(result.output)
    assert (report["contexts"], report["rows"], report["device"]) == (2, 1, "cpu")
    rows = {(row["head"], row["trunk"]): row for row in report["heads"]}
    assert set(rows) == {(objective, trunk) for objective in options("head") for trunk in options("trunk")}
    for (objective, _), row in rows.items():
        assert row["loss_ms"] > 0
        assert row["sample_ms"] > 0
        assert row["iterations"] >= (1 if objective == "regression" else 10)


def test_table_names_what_was_timed(monkeypatch: pytest.MonkeyPatch) -> None:
    timing = head.HeadTiming("regression", "mlp", 12345, 1.5, 0.25, 1.0)
    monkeypatch.setattr(head, "measure", lambda *_: timing)
    result = CliRunner().invoke(robomem, ["bench", "head", "--rows", "3", "--device", "cpu"])
    assert "sample of 3 (ms)" in result.output
    assert "12,345" in result.output
