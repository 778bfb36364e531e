"""`robomem bench head` times every objective on every trunk."""

import json
from pathlib import Path

from click.testing import CliRunner

from robomem.cli import robomem

CONFIGS = Path(__file__).parents[2] / "configs"


def options(group: str) -> set[str]:
    return {path.stem for path in (CONFIGS / group).glob("*.yaml")}


def test_every_head_is_timed_on_every_trunk(tmp_path: Path) -> None:
    output = tmp_path / "heads.json"
    sizes = ["--contexts", "2", "--rows", "3", "--repeats", "1", "--device", "cpu"]
    result = CliRunner().invoke(robomem, ["bench", "head", *sizes, "--output", str(output)])
    assert result.exit_code == 0, result.output
    report = json.loads(output.read_text())
    assert (report["contexts"], report["rows"], report["device"]) == (2, 3, "cpu")
    rows = {(row["head"], row["trunk"]): row for row in report["heads"]}
    assert set(rows) == {(head, trunk) for head in options("head") for trunk in options("trunk")}
    for (head, trunk), row in rows.items():
        assert row["loss_ms"] > 0
        assert row["sample_ms"] > 0
        evaluations = 1 if head == "regression" else 10
        assert row["iterations"] == evaluations if trunk == "mlp" else row["iterations"] > evaluations
        assert f"{row['parameters']:,}" in result.output
