"""Embedding cache: every frame is encoded once, nothing finished is lost, and nothing stale or damaged is used."""

import resource
import signal
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from dataset_samples import EMBODIMENT, make_episode
from filelock import FileLock
from torch import Tensor
from torch.nn import functional

from robomem.contract import Window
from robomem.datasets.augment import EpisodeAugmentation
from robomem.datasets.config import DataConfig
from robomem.datasets.embedding_cache import Contents, EmbeddingCache, is_finished
from robomem.datasets.embedding_writer import fill
from robomem.datasets.lerobot_reader import EpisodeReader
from robomem.datasets.lerobot_writer import EpisodeWriter
from robomem.datasets.mixture import Mixture
from robomem.datasets.sequences import SequenceBatches
from robomem.datasets.source import EpisodeSource
from robomem.episode import Episode
from robomem.errors import RobomemError

EPISODES = 7
KILLED = """
import os, signal, sys
sys.path += sys.argv[3:]
from pathlib import Path
from test_embedding_cache import Means, cache
from robomem.datasets.lerobot_reader import EpisodeReader

def kill(calls):
    if calls == 9:  # the first camera of the fifth episode is encoded, the second is not
        os.kill(os.getpid(), signal.SIGKILL)

cache(Path(sys.argv[1]), EpisodeReader(sys.argv[2]), Means(kill))
"""


class Means:
    """A frame encoder: mean colours of the four quarters."""

    shape = (4, 3)
    digest = "means"

    def __init__(self, hook: Callable[[int], object] = lambda calls: None, scale: float = 1.0) -> None:
        self.hook, self.scale, self.calls = hook, scale, 0

    def __call__(self, images: Tensor) -> Tensor:
        self.hook(self.calls)
        self.calls += 1
        pixels = images.permute(0, 3, 1, 2).float() * self.scale
        return functional.adaptive_avg_pool2d(pixels, 2).flatten(2).transpose(1, 2)


def folder_of(root: Path, source: EpisodeSource, encoder: Means) -> Path:
    return root / Contents.of(source, encoder).name


def cache(root: Path, source: EpisodeSource, encoder: Means, report: Callable[[int], object] = int) -> EmbeddingCache:
    contents = Contents.of(source, encoder)
    fill(root / contents.name, contents, source, encoder, report)
    return EmbeddingCache(root / contents.name, contents)


def write(root: Path, episodes: list[Episode]) -> EpisodeReader:
    with EpisodeWriter(root, EMBODIMENT) as writer:
        for episode in episodes:
            writer.save(episode)
    return EpisodeReader(root)


@pytest.fixture(scope="module")
def dataset(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Not to be changed."""
    root = tmp_path_factory.mktemp("data") / "set"
    write(root, [make_episode(seed) for seed in range(EPISODES)])
    return root


@pytest.fixture(scope="module")
def source(dataset: Path) -> EpisodeReader:
    return EpisodeReader(dataset)


def assert_features(found: EmbeddingCache, source: EpisodeSource) -> None:
    for position, episode in enumerate(source):
        features = found[position]
        assert list(features) == [camera.name for camera in EMBODIMENT.cameras]
        for camera, frames in episode.images.items():
            expected = Means()(torch.tensor(frames)).half().numpy()
            assert features[camera].dtype == np.float16
            np.testing.assert_array_equal(features[camera], expected)
            assert not features[camera].flags.writeable


def test_every_frame_is_encoded_once(source: EpisodeReader, tmp_path: Path) -> None:
    encoder, told = Means(), []
    found = cache(tmp_path, source, encoder, told.append)
    assert_features(found, source)
    assert encoder.calls == 2 * EPISODES
    assert told == [0, *np.cumsum(source.lengths)]
    assert_features(cache(tmp_path, source, encoder), source)
    assert encoder.calls == 2 * EPISODES
    contents = Contents.of(source, encoder)
    assert contents.size == sum(path.stat().st_size - 128 for path in tmp_path.glob("*/*.npy"))
    one = np.load(contents.file(tmp_path / contents.name, "hand"))  # as anybody reads it
    np.testing.assert_array_equal(one[-1], found[EPISODES - 1]["hand"][-1])


def test_killed_it_goes_on(source: EpisodeReader, dataset: Path, tmp_path: Path) -> None:
    here = Path(__file__).parent
    arguments = [tmp_path, dataset, here, here.parent / "support"]
    killed = subprocess.run([sys.executable, "-c", KILLED, *arguments], capture_output=True, text=True)
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    encoder = Means()
    folder = folder_of(tmp_path, source, encoder)
    assert not is_finished(folder, Contents.of(source, encoder))
    with pytest.raises(RobomemError, match=r"it has 4 of 7 episodes"):
        EmbeddingCache(folder, Contents.of(source, encoder))
    for file, rest in (("base.npy", b"half a feature"), ("episodes.jsonl", b'{"crc32": [1')):
        with (folder / file).open("ab") as half:
            half.write(rest)
    assert_features(cache(tmp_path, source, encoder), source)
    assert encoder.calls == 2 * 3


def test_full_disk_keeps_what_is_finished(source: EpisodeReader, tmp_path: Path) -> None:
    contents, encoder = Contents.of(source, Means()), Means()
    needed = 128 + contents.starts[3] * contents.bytes_per_tick + 5
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    ignored = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (needed, hard))
    try:
        with pytest.raises(RobomemError, match=r"cannot write .*the features of the other episodes.*Free some space"):
            cache(tmp_path, source, encoder)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        signal.signal(signal.SIGXFSZ, ignored)
    encoder.calls = 0
    assert_features(cache(tmp_path, source, encoder), source)
    assert encoder.calls == 2 * (EPISODES - 3)


def test_disk_too_small_is_refused_before_anything_is_encoded(source: EpisodeReader, tmp_path: Path) -> None:
    encoder = Means()
    contents = replace(Contents.of(source, encoder), shape=[2**30, 2**20])
    with pytest.raises(RobomemError, match=r"needs [\d.]+ GiB and its disk has"):
        fill(tmp_path / "cache", contents, source, encoder, int)
    assert encoder.calls == 0


def flip(path: Path, byte: int) -> None:
    data = bytearray(path.read_bytes())
    data[byte] ^= 4
    path.write_bytes(data)


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-7])


@pytest.mark.parametrize(
    ("file", "damage", "message"),
    [
        ("hand.npy", lambda path: flip(path, -1), "the features of episode 6 are not those that were written"),
        ("hand.npy", cut, "hand.npy: "),
        ("hand.npy", Path.unlink, "hand.npy: "),
        ("hand.npy", lambda path: flip(path, 3), "hand.npy: "),
        ("episodes.jsonl", lambda path: flip(path, 0), "episodes.jsonl: "),
        ("episodes.jsonl", lambda path: path.write_bytes(2 * path.read_bytes()), "lines of other episodes"),
        ("contents.json", lambda path: path.write_text("{}"), "contents.json is not what this version writes"),
    ],
    ids=["flipped", "cut", "missing", "header", "line", "lines", "contents"],
)
def test_damage_is_named(
    file: str, damage: Callable[[Path], object], message: str, source: EpisodeReader, tmp_path: Path
) -> None:
    encoder = Means()
    cache(tmp_path, source, encoder)
    folder = folder_of(tmp_path, source, encoder)
    damage(folder / file)
    with pytest.raises(RobomemError) as caught:
        EmbeddingCache(folder, Contents.of(source, encoder))[EPISODES - 1]
    assert f"the features in {folder} are damaged (" in str(caught.value)
    assert message in str(caught.value)
    assert "remove that folder" in str(caught.value)


def test_shorter_than_its_lines_it_does_not_go_on(source: EpisodeReader, tmp_path: Path) -> None:
    encoder = Means()
    cache(tmp_path, source, encoder)
    folder = folder_of(tmp_path, source, encoder)
    lines = (folder / "episodes.jsonl").read_bytes().splitlines(keepends=True)
    (folder / "episodes.jsonl").write_bytes(b"".join(lines[:5]))
    (folder / "base.npy").write_bytes(b"")
    with pytest.raises(RobomemError, match=r"base\.npy is shorter than its 5 episodes"):
        cache(tmp_path, source, encoder)


def test_features_of_something_else_are_refused(source: EpisodeReader, tmp_path: Path) -> None:
    encoder = Means()
    cache(tmp_path, source, encoder)
    contents = Contents.of(source, encoder)
    other = replace(contents, encoder="another")
    folder = (tmp_path / contents.name).rename(tmp_path / other.name)
    message = r"another dataset or encoder \(encoder differ\); give another folder"
    with pytest.raises(RobomemError, match=message):
        EmbeddingCache(folder, other)
    with pytest.raises(RobomemError, match=message):
        fill(folder, other, source, encoder, int)


def changed(seed: int, change: str) -> Episode:
    episode = make_episode(seed)
    if change == "frame":
        images = {name: frames.copy() for name, frames in episode.images.items()}
        images["hand"][-1, 0, 0, 0] ^= 1
        return replace(episode, images=images)
    if change == "action":
        return replace(episode, actions=episode.actions + np.float32(1e-3))
    return replace(episode, provenance={"renderer": "lite"})


@pytest.mark.parametrize("change", ["frame", "action", "provenance"])
def test_changed_dataset_has_another_digest(change: str, source: EpisodeReader, tmp_path: Path) -> None:
    digest = Contents.of(source, Means()).dataset
    same = [make_episode(seed) for seed in range(EPISODES)]
    assert Contents.of(write(tmp_path / "same", same), Means()).dataset == digest
    other = write(tmp_path / "other", [*same[:-1], changed(EPISODES - 1, change)])
    assert Contents.of(other, Means()).dataset != digest


def test_one_process_fills_it(source: EpisodeReader, tmp_path: Path) -> None:
    folder = folder_of(tmp_path, source, Means())
    folder.mkdir()
    with FileLock(folder / ".lock"), pytest.raises(RobomemError, match="another process makes the features"):
        cache(tmp_path, source, Means())


def test_feature_beyond_float16_is_refused(source: EpisodeReader, tmp_path: Path) -> None:
    with pytest.raises(RobomemError, match=r"a feature of episode 0 that float16 cannot hold"):
        cache(tmp_path, source, Means(scale=1e4))


def test_mixture_and_subset_have_their_own(source: EpisodeReader, dataset: Path, tmp_path: Path) -> None:
    subset = EpisodeReader(dataset, [4, 2])
    mixture = Mixture([source, subset], ["source", "subset"])
    for each in (subset, mixture):
        assert_features(cache(tmp_path / "cache", each, Means()), each)
    assert len(list((tmp_path / "cache").iterdir())) == 2


@pytest.mark.parametrize("keep", [1.0, 0.4])
def test_windows_carry_features_in_place_of_frames(keep: float, source: EpisodeReader, tmp_path: Path) -> None:
    augment = EpisodeAugmentation(keep=keep, jitter=0.2)
    batches = SequenceBatches(source, 2, 4, 3, 0, augment)
    encoded = batches.encoded(cache(tmp_path, source, Means()))
    for plain, found in zip(batches.epoch(1), encoded.epoch(1), strict=True):
        assert_same_but_encoded(found, plain)


def assert_same_but_encoded(found: Window, plain: Window) -> None:
    assert not found.observation.images
    for name, value in vars(plain).items():
        if name != "observation":
            assert torch.equal(getattr(found, name), value)
    assert torch.equal(found.observation.proprio, plain.observation.proprio)
    assert found.observation.instruction == plain.observation.instruction
    for name, frames in plain.observation.images.items():
        expected = Means()(frames.flatten(0, 1)).half().unflatten(0, frames.shape[:2])
        assert torch.equal(found.observation.features[name], expected)


@pytest.mark.parametrize("setting", ["channel_permutation", "shift"])
def test_changes_of_frames_are_refused(setting: str, source: EpisodeReader, tmp_path: Path) -> None:
    augment, message = EpisodeAugmentation(**{setting: 1}), rf"set data\.augmentation\.{setting}=0, or data\.cache_feat"
    with pytest.raises(RobomemError, match=message):
        DataConfig(root="somewhere", cache_features=True, augmentation=augment)
    batches = SequenceBatches(source, 2, 4, 3, 0, augment)
    with pytest.raises(RobomemError, match=message):
        batches.encoded(cache(tmp_path, source, Means()))
