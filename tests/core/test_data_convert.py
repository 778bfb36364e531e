"""`robomem data convert`: there and back again, and nothing is lost or made up on the way."""

import re
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from dataset_samples import EMBODIMENT, assert_equal_episodes, make_episode

from robomem.cli import run
from robomem.datasets.config import FrameCodec
from robomem.datasets.convert import Report, compare, encoding_threads, write_lerobot
from robomem.datasets.encoding import EncodedEpisode
from robomem.datasets.lerobot_reader import EpisodeReader
from robomem.datasets.lerobot_writer import EpisodeWriter
from robomem.datasets.source import EpisodeSource
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


def convert(source: EpisodeSource, root: Path, codec: FrameCodec | None = None, report: Report = nothing) -> None:
    """Write a source by two threads."""
    codec = codec or source.codec
    with encoding_threads(source, codec, 2) as encoders:
        write_lerobot(source, root, encoders, report)


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


@pytest.mark.parametrize("target", ["", "data", "new/place"])
def test_a_dataset_is_not_converted_into_itself(target: str, root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = sorted(root.rglob("*"))
    assert run(["data", "convert", str(root), str(root / target), "--to", "lerobot"]) == 1
    assert "lies in the dataset to convert" in capsys.readouterr().err
    assert sorted(root.rglob("*")) == before


class Dying(EpisodeReader):
    """A source that breaks at one episode."""

    last = 0

    def encoded(self, position: int, codec: FrameCodec) -> EncodedEpisode:
        if position == self.last:
            raise RobomemError("died")
        return super().encoded(position, codec)


def test_a_conversion_goes_on_where_it_was_stopped(root: Path, tmp_path: Path) -> None:
    reached = []
    for last in (3, 3, 8, 11):
        source = Dying(root)
        source.last = last
        with pytest.raises(RobomemError, match="died"):
            convert(source, tmp_path)
        reached.append(len(EpisodeReader(tmp_path)))
    assert reached == [3, 3, 8, 11]
    begun: list[int] = []
    convert(EpisodeReader(root), tmp_path, report=begun.append)
    assert begun == [11, 12]
    compare(EpisodeReader(root), EpisodeReader(tmp_path), nothing)


def test_another_dataset_is_not_gone_on_with(root: Path, tmp_path: Path) -> None:
    convert(EpisodeReader(root, [5, 6]), tmp_path)
    with pytest.raises(RobomemError, match="holds other episodes than those to convert; give a new folder"):
        convert(EpisodeReader(root), tmp_path)


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


@pytest.mark.parametrize("codec", ["h264", "av1"])
def test_frames_become_videos_and_are_never_encoded_again(
    root: Path, tmp_path: Path, codec: str, capsys: pytest.CaptureFixture[str]
) -> None:
    video, back = tmp_path / "video", tmp_path / "merged"
    assert run(["data", "convert", str(root), str(video), "--to", "lerobot", "--codec", codec, "--crf", "10"]) == 0
    assert "12 episodes, 57 ticks, equal but for its frames (PSNR at least" in capsys.readouterr().out
    first = EpisodeReader(video)
    assert first.codec == FrameCodec(codec=codec, crf=10)
    assert run(["data", "merge", str(back), str(video), str(video)]) == 0
    merged = EpisodeReader(back)
    assert merged.codec == first.codec
    for position, episode in enumerate(merged):
        assert_equal_episodes(episode, first[position % 12])
    assert run(["data", "convert", str(back), str(tmp_path / "png"), "--to", "lerobot", "--codec", "png"]) == 0
    assert_equal_episodes(EpisodeReader(tmp_path / "png")[23], first[11])


def test_a_video_of_other_frames_is_named(root: Path, tmp_path: Path) -> None:
    changed = Changed(root)
    changed.change = lambda episode: brighter(episode, 160)  # type: ignore[method-assign]
    convert(changed, tmp_path, FrameCodec(codec="h264"))
    with pytest.raises(RobomemError, match="episode 7 was not converted right: camera hand differs"):
        compare(EpisodeReader(root), EpisodeReader(tmp_path), nothing)


def test_a_cluster_encodes(root: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["data", "convert", str(root), str(tmp_path / "one"), "--to", "lerobot"]
    assert run([*arguments, "--ray", "local"]) == 0
    assert f"12 episodes, 57 ticks, equal to {root}" in capsys.readouterr().out
    damaged = tmp_path / "damaged"
    shutil.copytree(root, damaged)
    (data,) = (damaged / "data").rglob("*.parquet")
    with data.open("r+b") as file:
        file.seek(data.stat().st_size // 2)
        file.write(b"\0" * 64)
    arguments[2:4] = [str(damaged), str(tmp_path / "two")]
    assert run([*arguments, "--ray", "local"]) == 1
    assert re.fullmatch(r"error: [^\n]*file-000.parquet is damaged[^\n]*\n", capsys.readouterr().err)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--to", "lerobot", "--crf", "3"], "give --codec h264 or av1 with it"),
        (["--to", "lerobot", "--codec", "png", "--crf", "3"], "choose frames.codec=h264 or av1, or leave it out"),
        (["--to", "lerobot", "--codec", "h264", "--crf", "52"], "must be from 0 to 51"),
        (["--to", "rlds", "--codec", "av1"], "RLDS stores frames as PNG"),
        (["--to", "rlds", "--ray", "auto"], "are of --to lerobot"),
    ],
)
def test_options_that_do_not_fit_are_refused(
    root: Path, tmp_path: Path, arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["data", "convert", str(root), str(tmp_path / "new"), *arguments]) == 1
    assert message in capsys.readouterr().err
    assert not (tmp_path / "new").exists()
