"""Episodes in the layout of the benchmark's own collectors."""

from pathlib import Path

import numpy as np
import pytest

from robomem import cli
from robomem.datasets.config import FrameCodec
from robomem.datasets.convert import compare, encoding_threads, write_lerobot
from robomem.datasets.lerobot_reader import EpisodeReader
from robomem.datasets.npz_source import NpzSource
from robomem.datasets.open import open_source
from robomem.datasets.sequences import SequenceBatches
from robomem.errors import RobomemError

TICKS = (4, 3, 6)


def write_episode(root: Path, number: int, ticks: int, **changes: object) -> Path:
    """As `np.savez(out_file, **episode_data)` of the collectors, with arrays of these types and shapes."""
    rng = np.random.default_rng(number)
    arrays: dict[str, object] = {
        "rgb": rng.integers(0, 256, (ticks, 128, 128, 6), dtype=np.uint8),
        "proprio": rng.normal(size=(ticks, 7)).astype(np.float32),
        "action": rng.uniform(-1, 1, (ticks, 7)).astype(np.float32),
        "reward": rng.random(ticks).astype(np.float32),
        "success": (np.arange(ticks) == ticks - 1).astype(np.int32),
        "done": np.zeros(ticks, np.int32),
        "language_instruction": "touch the cube",
        "success_once": True,
        "episode_length": ticks,
        "episode_seed": 100 + number,
    }
    path = root / f"train_data_{number}.npz"
    np.savez(path, **arrays | changes)  # type: ignore[arg-type]
    return path


@pytest.fixture
def root(tmp_path: Path) -> Path:
    for number, ticks in zip((2, 10, 9), TICKS, strict=True):
        write_episode(tmp_path, number, ticks)
    (tmp_path / "metadata.json").write_text("{}")
    return tmp_path


def test_episodes_are_read_in_the_order_of_their_numbers(root: Path) -> None:
    source = open_source(root)
    assert isinstance(source, NpzSource)
    assert (source.seeds, source.lengths, source.successes) == ((102, 109, 110), (4, 6, 3), (True,) * 3)
    for episode, number in zip(source, (2, 9, 10), strict=True):
        arrays = np.load(root / f"train_data_{number}.npz")
        np.testing.assert_array_equal(episode.images["top"], arrays["rgb"][..., :3])
        np.testing.assert_array_equal(episode.images["wrist"], arrays["rgb"][..., 3:])
        np.testing.assert_array_equal(episode.proprio, arrays["proprio"])
        np.testing.assert_array_equal(episode.actions, arrays["action"])
        np.testing.assert_array_equal(episode.reward, arrays["reward"])
        np.testing.assert_array_equal(episode.success, arrays["success"] == 1)
        np.testing.assert_allclose(episode.timestamps, 0.05 * np.arange(len(episode)))
        assert (episode.instruction, episode.seed) == ("touch the cube", 100 + number)
    assert open_source(root, [2, 0]).seeds == (110, 102)
    assert source.without_images(1).images == {}


def test_they_become_a_lerobot_dataset_and_train(root: Path, tmp_path: Path) -> None:
    source, target = open_source(root), tmp_path / "lerobot"
    with encoding_threads(source, FrameCodec(), 2) as encoders:
        write_lerobot(source, target, encoders, lambda done: None)
    compare(source, EpisodeReader(target), lambda done: None)
    ours, theirs = (list(SequenceBatches(open_source(folder), 2, 4, 2, seed=0).epoch(0)) for folder in (root, target))
    assert len(ours) == len(theirs) > 0
    assert all((a.actions == b.actions).all() for a, b in zip(ours, theirs, strict=True))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"action": np.zeros((5, 7), np.float32)}, "action has 5 ticks, the episode 4"),
        ({"proprio": np.full((4, 7), np.nan, np.float32)}, "proprio of the episode .* is not finite at tick 0"),
        ({"rgb": np.zeros((4, 64, 128, 6), np.uint8)}, "damaged"),
        ({"language_instruction": np.array([{}], object)}, "damaged .*allow_pickle"),
    ],
)
def test_a_wrong_episode_is_named(root: Path, changes: dict[str, object], message: str) -> None:
    write_episode(root, 10, 4, **changes)
    source = open_source(root)
    assert len(source[0]) == 4
    with pytest.raises(RobomemError, match=rf"train_data_10\.npz is damaged .*{message}|{message}") as caught:
        source[2]
    assert "train_data_10.npz" in str(caught.value)


def test_a_torn_file_is_named(root: Path) -> None:
    path = root / "train_data_9.npz"
    path.write_bytes(path.read_bytes()[:-1000])
    with pytest.raises(RobomemError, match=r"train_data_9\.npz is damaged"):
        open_source(root)


def test_inspect_shows_what_it_is(
    root: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    assert cli.run(["data", "inspect", str(root)]) == 0
    said = capsys.readouterr().out
    highest = max(np.load(path)["action"][:, 0].max() for path in root.glob("*.npz"))
    assert "NPZ episodes" in said
    assert f" ... {highest:.4g}" in said
    assert "yes" in next(line for line in said.splitlines() if "mikasa_npz" in line)
