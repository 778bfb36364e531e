"""`robomem probe`: cells are measured once, tables are written, unknown names are refused."""

import json
from pathlib import Path

import pytest

from robomem import cli
from robomem.probes.base import EPISODES

SMALL = ["--probe", "tmaze", "--probe", "recall", "--memory", "none", "--steps", "5", "--seeds", "2"]


def probe(*arguments: str) -> int:
    return cli.run(["probe", *arguments])


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The results of a small run."""
    path = tmp_path_factory.mktemp("probe")
    assert probe(*SMALL, "-o", str(path)) == 0
    return path


def test_without_memory_scores_are_at_chance(folder: Path) -> None:
    table = {row["probe"]: row for row in json.loads((folder / "table.json").read_text())}
    assert table.keys() == {"tmaze", "recall"}
    for name, chance in (("tmaze", 1 / 2), ("recall", 1 / 6)):
        row = table[name]
        assert (row["module"], row["parameters"], row["seeds"]) == ("none", 0, [0, 1])
        for score in row["scores"].values():
            assert score["low"] < score["mean"] < score["high"]
            assert abs(score["mean"] - chance) < 0.12
    assert len(table["tmaze"]["scores"]) == 5
    assert table["tmaze"]["measured"]["bytes at 1,000,000"] == 0


def test_tables_are_written(folder: Path) -> None:
    page = (folder / "table.md").read_text()
    assert "| none | 0 | 0." in page
    assert "## tmaze" in page
    assert "(table.svg)" in page
    assert "</svg>" in (folder / "table.svg").read_text()


def test_a_run_goes_on_where_it_stopped(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    cells = sorted(folder.glob("cells/*/*.json"))
    assert len(cells) == 4
    scores = json.loads(cells[0].read_text())["scores"]
    assert {len(condition) for condition in scores.values()} == {EPISODES}
    cells[0].unlink()
    (folder / "table.md").unlink()
    kept = {cell: cell.stat().st_mtime_ns for cell in cells[1:]}
    assert probe(*SMALL, "-o", str(folder)) == 0
    assert json.loads(cells[0].read_text())["scores"] == scores, "a cell does not depend on the run it was measured in"
    assert {cell: cell.stat().st_mtime_ns for cell in cells[1:]} == kept
    assert (folder / "table.md").exists()
    capsys.readouterr()
    assert probe(*SMALL, "--steps", "6", "-o", str(folder)) == 1
    assert "steps=5, now steps=6" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--probe", "tmace"], "no probe 'tmace'; did you mean 'tmaze'?"),
        (["--memory", "grü"], "no memory module 'grü'; did you mean 'gru'?"),
        (["--memory", "gruu:time=false"], "no memory module 'gruu'; did you mean 'gru'?"),
        (["--memory", "gru:tme=false"], "unknown configuration key 'tme'; did you mean 'time'?"),
        (["--memory", "flow:cell.time_scales=[0.05"], "cannot be read as KEY=VALUE,KEY=VALUE; give lists as [1,2]"),
    ],
)
def test_unknown_names_are_refused(
    arguments: list[str], message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert probe(*arguments, "-o", str(tmp_path / "probe")) == 1
    assert message in capsys.readouterr().err
    assert not (tmp_path / "probe").exists()


def test_help_names_the_probes(capsys: pytest.CaptureFixture[str]) -> None:
    assert probe("--help") == 0
    assert "tmaze" in capsys.readouterr().out
