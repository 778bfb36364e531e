"""Datasets whose frames are videos: what is written opens in LeRobot with equal frames, and what was saved stays."""

import json
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any, cast

import cv2
import numpy as np
import pytest
from dataset_samples import EMBODIMENT, assert_equal_episodes, make_episode

from robomem.datasets import compaction
from robomem.datasets import lerobot_format as form
from robomem.datasets.checking.check import check_dataset
from robomem.datasets.checking.repair import repair_dataset
from robomem.datasets.config import FrameCodec
from robomem.datasets.convert import compare
from robomem.datasets.encoding import EncodedEpisode, encode
from robomem.datasets.lerobot_index import load_index
from robomem.datasets.lerobot_reader import EpisodeReader
from robomem.datasets.lerobot_writer import EpisodeWriter
from robomem.datasets.video_encoding import decode_video, encode_video
from robomem.episode import Episode
from robomem.errors import RobomemError, SpecMismatch
from robomem.spec import CameraSpec

H264, AV1 = FrameCodec(codec="h264"), FrameCodec(codec="av1")


@cache
def encoded(seed: int, codec: FrameCodec = H264) -> EncodedEpisode:
    """An episode, encoded once: the same frames need not become the same video a second time."""
    return encode(make_episode(seed), EMBODIMENT, codec)


def expected(seed: int, codec: FrameCodec = H264) -> Episode:
    """An episode with the frames that a codec left of it."""
    episode, frames = make_episode(seed), encoded(seed, codec).frames
    videos = {name: cast(bytes, frames[name].data) for name in episode.images}
    return replace(episode, images={name: decode_video(videos[name], episode.images[name]) for name in videos})


def write(root: Path, seeds: range, codec: FrameCodec = H264, *, merge: bool = True) -> None:
    """Save an episode for each seed; without `merge` the writer leaves as if interrupted."""
    writer = EpisodeWriter(root, EMBODIMENT, codec=codec)
    for seed in seeds:
        writer.save(encoded(seed, codec))
    if merge:
        writer.close()
    else:
        writer.__exit__(KeyboardInterrupt, None, None)


def assert_holds(root: Path, seeds: range, codec: FrameCodec = H264) -> None:
    reader = EpisodeReader(root)
    assert reader.seeds == tuple(seeds)
    for position, seed in enumerate(seeds):
        assert_equal_episodes(reader[position], expected(seed, codec))


def videos(root: Path) -> list[str]:
    """Video files of one camera."""
    return sorted(path.name for path in (root / "videos/observation.images.base").rglob("*.mp4"))


@pytest.mark.parametrize("codec", [H264, AV1], ids=str)
@pytest.mark.parametrize("merge", [False, True])
def test_lerobot_reads_the_same_frames(tmp_path: Path, hf_cache: None, codec: FrameCodec, merge: bool) -> None:
    from lerobot.datasets import LeRobotDataset

    write(tmp_path, range(7), codec, merge=merge)
    assert videos(tmp_path) == (["file-007.mp4"] if merge else [f"file-00{n}.mp4" for n in range(7)])
    assert_holds(tmp_path, range(7), codec)
    dataset: Any = LeRobotDataset("local/test", root=tmp_path, video_backend="pyav")
    row = 0
    for seed in range(7):
        episode = expected(seed, codec)
        for tick in range(len(episode)):
            item = dataset[row]
            for name, frames in episode.images.items():
                pixels = (item[f"observation.images.{name}"] * 255).round().byte().permute(1, 2, 0)
                np.testing.assert_array_equal(pixels.numpy(), frames[tick], strict=True)
            row += 1
    assert row == len(dataset)


def test_lerobot_would_describe_the_videos_so(tmp_path: Path) -> None:
    from lerobot.datasets.video_utils import get_video_info

    write(tmp_path, range(2), AV1)
    info = json.loads((tmp_path / form.INFO).read_text())
    assert info["video_path"] == "videos/{video_key}/chunk-{chunk_index:03d}/file-{file_index:03d}.mp4"
    for feature in ("observation.images.base", "observation.images.hand"):
        described = info["features"][feature]["info"]
        (path,) = (tmp_path / "videos" / feature).rglob("*.mp4")
        theirs = get_video_info(path)
        assert described == {**theirs, "video.g": 2, "video.crf": 30, "video.codec": "av1"}


def test_a_smooth_picture_loses_little() -> None:
    rng = np.random.default_rng(0)
    blobs = cv2.resize(rng.integers(0, 256, (5, 5, 3), dtype=np.uint8), (96, 64), interpolation=cv2.INTER_CUBIC)
    frames = np.stack([np.roll(blobs, tick, axis=1) for tick in range(12)])
    for codec, least in ((H264, 30), (AV1, 30), (FrameCodec(codec="h264", crf=45), 22)):
        found = decode_video(encode_video(frames, 20, codec), frames)
        assert cv2.PSNR(found, frames) > least
    assert len(encode_video(frames, 20, AV1)) < len(encode_video(frames, 20, H264))


def test_statistics_are_of_the_frames_that_are_read(tmp_path: Path) -> None:
    write(tmp_path, range(3))
    saved = json.loads((tmp_path / form.STATISTICS).read_text())["observation.images.base"]
    frames = np.concatenate([expected(seed).images["base"] for seed in range(3)]) / 255
    np.testing.assert_allclose(np.ravel(saved["mean"]), frames.mean(axis=(0, 1, 2)), atol=1e-6)
    np.testing.assert_allclose(np.ravel(saved["std"]), frames.std(axis=(0, 1, 2)), atol=1e-6)
    np.testing.assert_allclose(np.ravel(saved["max"]), frames.max(axis=(0, 1, 2)), atol=1e-6)


def test_appending_merges_only_what_is_small(tmp_path: Path) -> None:
    write(tmp_path, range(3))
    write(tmp_path, range(3, 5), merge=False)
    assert videos(tmp_path) == ["file-003.mp4", "file-004.mp4", "file-005.mp4"]
    EpisodeWriter(tmp_path, EMBODIMENT).close()
    assert videos(tmp_path) == ["file-006.mp4"]
    assert_holds(tmp_path, range(5))
    with EpisodeWriter(tmp_path, EMBODIMENT) as writer:
        assert writer.codec == H264
        writer.save(encoded(5))
        size = (tmp_path / "videos/observation.images.base/chunk-000/file-006.mp4").stat().st_size
        compaction.compact(load_index(tmp_path), video_bytes=size)
    assert_holds(tmp_path, range(6))


def test_a_dataset_has_one_codec(tmp_path: Path) -> None:
    write(tmp_path, range(1))
    with pytest.raises(SpecMismatch, match="stores frames as h264 of crf 18, not as png; choose its codec"):
        EpisodeWriter(tmp_path, EMBODIMENT, codec=FrameCodec())
    with EpisodeWriter(tmp_path, EMBODIMENT) as writer, pytest.raises(SpecMismatch, match="not as av1 of crf 30"):
        writer.save(encoded(1, AV1))
    assert_holds(tmp_path, range(1))


def test_an_odd_size_is_refused(tmp_path: Path) -> None:
    odd = replace(EMBODIMENT, cameras=(CameraSpec(name="base", height=9, width=12),))
    episode = replace(make_episode(0), images={"base": np.zeros((3, 9, 12, 3), np.uint8)})
    with EpisodeWriter(tmp_path, odd, codec=H264) as writer:
        with pytest.raises(RobomemError, match="12 x 9 have an odd size, which h264 cannot store; use png"):
            writer.save(episode)
        assert len(writer) == 0


class Interruption(BaseException):
    """Stands for a kill: nothing handles it."""


def failing(at: int, function: Callable[..., object]) -> Callable[..., object]:
    """The function, raising instead of its call number `at` and of every later one."""
    calls = iter(range(10**6))

    def call(*args: object, **kwargs: object) -> object:
        if next(calls) >= at:
            raise Interruption
        return function(*args, **kwargs)

    return call


@pytest.mark.parametrize("at", range(8))
def test_an_interrupted_save_leaves_the_dataset_as_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, at: int
) -> None:
    """Saving a new task replaces seven files, of which two are videos; the last is the commit."""
    write(tmp_path, range(2), merge=False)
    writer = EpisodeWriter(tmp_path, EMBODIMENT)
    with monkeypatch.context() as patch:
        patch.setattr(Path, "replace", failing(at, Path.replace))
        if at < 7:
            with pytest.raises(Interruption):
                writer.save(encoded(2))
        else:
            writer.save(encoded(2))
    writer.__exit__(Interruption, None, None)
    saved = range(3 if at == 7 else 2)
    assert_holds(tmp_path, saved)
    write(tmp_path, range(len(saved), 5))
    assert_holds(tmp_path, range(5))
    assert len(videos(tmp_path)) == 1


@pytest.mark.parametrize("function", ["exchange_folders", "renumber", "remove_unnamed"])
@pytest.mark.parametrize("at", [0, 1])
def test_an_interrupted_merge_is_whole_and_mended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, function: str, at: int
) -> None:
    write(tmp_path, range(4), merge=False)
    with monkeypatch.context() as patch:
        patch.setattr(compaction, function, failing(at, getattr(compaction, function)))
        if at == 0 or function == "exchange_folders":
            with pytest.raises(Interruption):
                compaction.compact(load_index(tmp_path))
    assert_holds(tmp_path, range(4))
    EpisodeWriter(tmp_path, EMBODIMENT).close()
    assert_holds(tmp_path, range(4))
    assert len(videos(tmp_path)) == 1


def test_no_swapping_of_folders_leaves_small_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path, range(3), merge=False)
    monkeypatch.setattr(compaction, "exchange_folders", lambda a, b: False)
    compaction.compact(load_index(tmp_path))
    assert videos(tmp_path) == ["file-000.mp4", "file-001.mp4", "file-002.mp4"]
    assert_holds(tmp_path, range(3))


def test_kill_never_loses_a_saved_episode(tmp_path: Path) -> None:
    root, clock = tmp_path / "dataset", random.Random(0)
    script = Path(__file__).parents[1] / "support" / "dataset_samples.py"
    for _ in range(3):
        process = subprocess.Popen([sys.executable, script, root, "h264"], stdout=subprocess.PIPE, text=True)
        assert process.stdout is not None
        first = process.stdout.readline()
        time.sleep(clock.uniform(0, 0.4))
        process.send_signal(signal.SIGKILL)
        reported = [int(line) for line in (first, *process.stdout)]
        process.wait()
        saved = len(EpisodeReader(root))
        assert saved in (reported[-1] + 1, reported[-1] + 2)
        with EpisodeWriter(tmp_path / "png", EMBODIMENT) as writer:
            for seed in range(len(writer), saved):
                writer.save(make_episode(seed))
        compare(EpisodeReader(tmp_path / "png"), EpisodeReader(root), lambda done: None)
        EpisodeWriter(root, EMBODIMENT).close()
        compare(EpisodeReader(tmp_path / "png"), EpisodeReader(root), lambda done: None)


def test_check_finds_and_repairs_a_damaged_video(tmp_path: Path) -> None:
    root, out = tmp_path / "root", tmp_path / "out"
    write(root, range(6), merge=False)
    assert not [finding for finding in check_dataset(root) if finding.severity == "error"]
    video = root / "videos/observation.images.hand/chunk-000/file-002.mp4"
    video.write_bytes(video.read_bytes()[:-200])
    findings = check_dataset(root)
    assert {finding.episode for finding in findings if finding.severity == "error"} <= {None, 2}
    repaired = repair_dataset(root, out, findings)
    assert (repaired.kept, list(repaired.lost)) == ((0, 1, 3, 4, 5), [2])
    for episode, seed in zip(EpisodeReader(out), (0, 1, 3, 4, 5), strict=True):
        assert_equal_episodes(episode, expected(seed))
    with EpisodeWriter(out, EMBODIMENT) as writer:
        writer.save(encoded(9))
    assert_equal_episodes(EpisodeReader(out)[5], expected(9))
