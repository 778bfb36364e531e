"""`robomem data merge` and `split`: no episode is lost, doubled or changed."""

from pathlib import Path

import pytest
from dataset_samples import EMBODIMENT, assert_equal_episodes, make_episode

from robomem.cli import run
from robomem.data.writing import share_out
from robomem.datasets.lerobot_reader import EpisodeReader
from robomem.datasets.lerobot_writer import EpisodeWriter
from robomem.errors import RobomemError


def record(root: Path, seeds: range) -> str:
    with EpisodeWriter(root, EMBODIMENT) as writer:
        for seed in seeds:
            writer.save(make_episode(seed))
    return str(root)


def assert_holds(root: Path, seeds: list[int]) -> None:
    reader = EpisodeReader(root)
    assert list(reader.seeds) == seeds
    for episode, seed in zip(reader, seeds, strict=True):
        assert_equal_episodes(episode, make_episode(seed))


def test_merging_puts_one_after_another_and_goes_on(tmp_path: Path) -> None:
    sources = [record(tmp_path / "a", range(3)), record(tmp_path / "b", range(20, 24))]
    command = ["data", "merge", str(tmp_path / "all"), *sources]
    assert run(command) == 0
    assert_holds(tmp_path / "all", [0, 1, 2, 20, 21, 22, 23])
    assert run(command) == 0  # nothing is left to do
    assert_holds(tmp_path / "all", [0, 1, 2, 20, 21, 22, 23])


def test_another_merge_does_not_go_into_the_same_folder(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    a, b = record(tmp_path / "a", range(3)), record(tmp_path / "b", range(20, 24))
    assert run(["data", "merge", str(tmp_path / "all"), a, b]) == 0
    assert run(["data", "merge", str(tmp_path / "all"), b, a]) == 1
    assert "holds other episodes" in capsys.readouterr().err


def test_splitting_gives_every_episode_to_one_part(tmp_path: Path) -> None:
    source, parts = record(tmp_path / "a", range(10)), tmp_path / "parts"
    assert run(["data", "split", source, str(parts), "--into", "train=0.8", "--into", "test=0.2", "--seed", "3"]) == 0
    shared = share_out(10, {"train": 0.8, "test": 0.2}, seed=3)
    assert {name: len(part) for name, part in shared.items()} == {"train": 8, "test": 2}
    assert sorted(shared["train"] + shared["test"]) == list(range(10))
    for name, seeds in shared.items():
        assert_holds(parts / name, seeds)
    assert share_out(10, {"train": 0.8, "test": 0.2}, seed=4) != shared


def test_shares_that_do_not_fit_are_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source = record(tmp_path / "a", range(3))
    assert run(["data", "split", source, str(tmp_path / "p"), "--into", "train=0.8", "--into", "test=0.1"]) == 1
    assert "2 parts with shares of 0.9 in all" in capsys.readouterr().err
    assert run(["data", "split", source, str(tmp_path / "p"), "--into", "train=90%"]) != 0
    assert "is not NAME=SHARE, such as train=0.9" in capsys.readouterr().err
    assert not (tmp_path / "p").exists()
    with pytest.raises(RobomemError, match="test would get none of 3 episodes"):
        share_out(3, {"train": 0.9, "test": 0.1}, seed=0)
