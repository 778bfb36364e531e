"""`robomem data check`: what it prints, writes and returns; what it finds is tested with the checks themselves."""

import json
from pathlib import Path

import pytest
from dataset_samples import EMBODIMENT, assert_equal_episodes, make_episode

from robomem import cli
from robomem.datasets.lerobot_reader import EpisodeReader
from robomem.datasets.lerobot_writer import EpisodeWriter


@pytest.fixture(autouse=True)
def wide(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "200")


def record(root: Path) -> Path:
    with EpisodeWriter(root, EMBODIMENT) as writer:
        for seed in range(5):
            writer.save(make_episode(seed))
    return root


@pytest.fixture
def damaged(tmp_path: Path) -> Path:
    """A dataset in whose only data file the pages of one episode are overwritten."""
    import pyarrow.parquet as pq

    root = record(tmp_path / "damaged")
    (data,) = (root / "data").rglob("*.parquet")
    column = pq.read_metadata(data).row_group(3).column(0)
    with data.open("r+b") as file:
        file.seek(column.data_page_offset + column.total_compressed_size // 2)
        file.write(b"\0" * 32)
    return root


def test_nothing_is_wrong_with_what_was_recorded(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    root = record(tmp_path / "root")
    assert cli.run(["data", "check", str(root), "--json", str(tmp_path / "findings.json")]) == 0
    assert capsys.readouterr().out == f"{root}: nothing wrong\n"
    assert json.loads((tmp_path / "findings.json").read_text()) == {"root": str(root), "findings": []}


def test_damage_is_shown_and_what_is_whole_is_salvaged(
    damaged: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = {path: path.read_bytes() for path in damaged.rglob("*") if path.is_file()}
    out, file = tmp_path / "repaired", tmp_path / "findings.json"
    assert cli.run(["data", "check", str(damaged), "--repair", str(out), "--json", str(file)]) == 1
    said = capsys.readouterr().out
    assert "damaged-rows" in said
    assert "1 errors, 0 warnings" in said
    assert "lost: episode 3: its rows cannot be read" in said
    assert f"{out}: 4 episodes kept, 1 lost" in said
    document = json.loads(file.read_text())
    assert [(f["check"], f["episode"], f["severity"]) for f in document["findings"]] == [("damaged-rows", 3, "error")]
    assert (document["kept"], list(document["lost"])) == ([0, 1, 2, 4], ["3"])
    for episode, seed in zip(EpisodeReader(out), (0, 1, 2, 4), strict=True):
        assert_equal_episodes(episode, make_episode(seed))
    assert before == {path: path.read_bytes() for path in damaged.rglob("*") if path.is_file()}
    assert cli.run(["data", "check", str(out)]) == 0


def test_a_copy_is_never_written_over_anything(
    damaged: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "there").mkdir()
    assert cli.run(["data", "check", str(damaged), "--repair", str(tmp_path / "there")]) == 1
    assert "there" in capsys.readouterr().err


def test_no_dataset_is_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.run(["data", "check", str(tmp_path / "none")]) == 1
    assert capsys.readouterr().err.startswith(f"error: there is no dataset at {tmp_path / 'none'}")
