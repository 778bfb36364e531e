"""`robomem bench features` times training on frames and on kept features."""

import json
from pathlib import Path

from click.testing import CliRunner
from vision import save_model

from robomem.cli import robomem


def test_both_ways_of_training_are_timed(tmp_path: Path) -> None:
    output, model = tmp_path / "features.json", save_model(tmp_path / "model")
    sizes = ["--rows", "2", "--ticks", "2", "--repeats", "1", "--device", "cpu", "--model", str(model), "--grid", "2"]
    result = CliRunner().invoke(robomem, ["bench", "features", *sizes, "--output", str(output)])
    assert result.exit_code == 0, result.output
    report = json.loads(output.read_text())
    assert (report["rows"], report["ticks"], report["frames"]) == (2, 2, 2 * 2 * 2 * 2)
    assert report["ratio"] == report["end_to_end_ms"] / report["features_ms"]
    assert report["features_ms"] > 0
    assert report["encoding_s"] > 0
    assert f"{report['ratio']:.1f} times the steps per second" in result.output
