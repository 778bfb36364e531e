"""Where a training run has ended, without what depends on the clock."""

import json
from pathlib import Path
from typing import Any

from robomem import checkpoint


def assert_same_end(found: Path, expected: Path) -> None:
    """The newest checkpoints and the metrics of two runs are the same, bit for bit."""
    mine, theirs = contents(found), contents(expected)
    assert {name for name in mine if mine[name] != theirs.get(name)} == set()
    assert mine.keys() == theirs.keys()
    assert lines(found) == lines(expected)


def contents(run_dir: Path) -> dict[str, Any]:
    """The newest checkpoint byte for byte."""
    folder = checkpoint.resolve(run_dir)
    found: dict[str, Any] = {str(p.relative_to(folder)): p.read_bytes() for p in folder.rglob("*") if p.is_file()}
    state = json.loads(found.pop("training/state.json"))
    state["position"].pop("elapsed")
    state["meter"].pop("seconds")
    state["random"].pop("python")  # drawn from by the run-time checks of shapes, in the thread that assembles windows
    return {**found, "state": state, "step": folder.name}


def lines(run_dir: Path) -> list[dict[str, float]]:
    """The metrics."""
    read = [json.loads(line) for line in (run_dir / "metrics.jsonl").read_text().splitlines()]
    return [{name: value for name, value in line.items() if name not in ("time_s", "frames_per_s")} for line in read]
