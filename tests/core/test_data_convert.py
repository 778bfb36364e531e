"""`robomem data convert`: there and back again, and nothing is lost or made up on the way."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from dataset_samples import EMBODIMENT, assert_equal_episodes, make_episode

from robomem.cli import run
from robomem.datasets.convert import compare, write_lerobot
from robomem.datasets.lerobot_reader import EpisodeReader
from robomem.datasets.lerobot_writer import EpisodeWriter
from robomem.episode import Episode
from robomem.errors import RobomemError

EPISODES = range(12)


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("recorded")
    with EpisodeWriter(root, EMBODIMENT, provenance={"env_id": "Toy"}) as writer:
        for seed in EPISODES:
            writer.save(make_episode(seed))
    return root


def nothing(done: int) -> None:
    """Report to nobody."""


def test_there_and_back_again(root: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["data", "convert", str(root), str(tmp_path / "rlds"), "--to", "rlds"]) == 0
    assert (
        run(["data", "convert", str(tmp_path / "rlds" / "mikasa_dataset"), str(tmp_path / "back"), "--to", "lerobot"])
        == 0
    )
    assert capsys.readouterr().out.count("12 episodes, 57 ticks, equal to ") == 2
    back = EpisodeReader(tmp_path / "back")
    assert (back.embodiment, back.provenance) == (EMBODIMENT, {"env_id": "Toy"})
    for seed, episode in zip(EPISODES, back, strict=True):
        assert_equal_episodes(episode, make_episode(seed))


class Dying(EpisodeReader):
    """A source that breaks at one episode."""

    last = 0

    def __getitem__(self, position: int) -> Episode:
        if position == self.last:
            raise RobomemError("died")
        return super().__getitem__(position)


def test_a_conversion_goes_on_where_it_was_stopped(root: Path, tmp_path: Path) -> None:
    reached = []
    for last in (3, 3, 8, 11):
        source = Dying(root)
        source.last = last
        with pytest.raises(RobomemError, match="died"):
            write_lerobot(source, tmp_path, 2, nothing)
        reached.append(len(EpisodeReader(tmp_path)))
    assert reached == [3, 3, 8, 11]
    begun: list[int] = []
    write_lerobot(EpisodeReader(root), tmp_path, 2, begun.append)
    assert begun == [11, 12]
    compare(EpisodeReader(root), EpisodeReader(tmp_path), nothing)


def test_another_dataset_is_not_gone_on_with(root: Path, tmp_path: Path) -> None:
    write_lerobot(EpisodeReader(root, [5, 6]), tmp_path, 1, nothing)
    with pytest.raises(RobomemError, match="holds other episodes than those to convert; give a new folder"):
        write_lerobot(EpisodeReader(root), tmp_path, 1, nothing)


class Changed(EpisodeReader):
    """A source of which one episode is told otherwise."""

    change = staticmethod(lambda episode: episode)

    def __getitem__(self, position: int) -> Episode:
        episode = super().__getitem__(position)
        return self.change(episode) if position == 7 else episode


def brighter(episode: Episode, levels: int) -> Episode:
    frames = {**episode.images, "hand": np.minimum(episode.images["hand"], 255 - levels) + np.uint8(levels)}
    return replace(episode, images=frames)


@pytest.mark.parametrize(
    ("change", "what"),
    [
        (lambda e: replace(e, instruction="pick"), "instruction or seed"),
        (lambda e: replace(e, actions=e.actions + np.float32(1e-6)), "actions"),
        (lambda e: replace(e, timestamps=e.timestamps * (1 + 1e-15)), "timestamps"),
        (lambda e: replace(e, success=~e.success), "success"),
        (lambda e: brighter(e, 1), "camera hand"),
    ],
)
def test_what_differs_is_named(root: Path, change: object, what: str) -> None:
    changed = Changed(root)
    changed.change = change  # type: ignore[assignment]
    with pytest.raises(RobomemError, match=f"episode 7 was not converted right: {what} differs"):
        compare(EpisodeReader(root), changed, nothing)
