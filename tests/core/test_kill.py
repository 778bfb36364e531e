"""`kill -9` at a random moment, then the same command again: nothing saved is lost, and it ends as if undisturbed.

Real commands, two of them on the real simulator, as small as they can be.
"""

import json
import os
import random
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from run_ends import assert_same_end
from tiny import write_tiny_dataset

from robomem import checkpoint, cli
from robomem.datasets.lerobot_reader import EpisodeReader
from robomem.episode import Episode

pytestmark = pytest.mark.usefixtures("one_thread")

MOMENT = random.SystemRandom()
SIMULATION = ("sim.render=lite", "sim.workers=1")


def kill_and_repeat[T](arguments: list[str], count: Callable[[], int], read: Callable[[], T]) -> T:
    """Kill a command at a random moment once it has saved something, and run it again to its end.

    Args:
        arguments: Of `robomem`.
        count: How much has been saved.
        read: What has been saved.

    Returns:
        What had been saved when it was killed.
    """
    command = [sys.executable, "-m", "robomem", *arguments]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    process = subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL)
    try:
        while not count():
            assert process.poll() is None, "it ended before it had saved anything"
            time.sleep(0.02)
        time.sleep(MOMENT.uniform(0, 1))
    finally:
        process.kill()
        process.wait()
    saved = read()
    subprocess.run(command, env=environment, stdout=subprocess.DEVNULL, check=True)
    return saved


def test_collect_loses_no_episode(recorded: Path, tmp_path: Path) -> None:
    root = tmp_path / "dataset"
    info = root / "meta/info.json"
    saved = kill_and_repeat(
        ["collect", f"root={root}", "episodes=2", *SIMULATION],
        lambda: json.loads(info.read_text())["total_episodes"] if info.exists() else 0,
        lambda: list(EpisodeReader(root)),
    )
    found = EpisodeReader(root)
    assert found.seeds == EpisodeReader(recorded).seeds
    for episode, before in zip(found, saved, strict=False):
        assert_same_episode(episode, before)
    for episode, undisturbed in zip(found, EpisodeReader(recorded), strict=True):
        assert_same_episode(episode, undisturbed)


def assert_same_episode(found: Episode, expected: Episode) -> None:
    for name in ("proprio", "actions", "timestamps", "reward", "success"):
        np.testing.assert_array_equal(getattr(found, name), getattr(expected, name))
    for name, frames in expected.images.items():
        np.testing.assert_array_equal(found.images[name], frames)
    assert (found.seed, found.instruction, found.provenance) == (
        expected.seed, expected.instruction, expected.provenance,
    )  # fmt: skip


def test_train_loses_no_checkpoint(tmp_path: Path) -> None:
    dataset = write_tiny_dataset(tmp_path / "data")
    settings = ["policy=memory_vla", f"data.root={dataset}", "policy.horizon=3", "debug=default", "max_steps=40"]

    def steps(run_dir: Path) -> list[int]:
        return [checkpoint.steps_of(path) for path in checkpoint.list_checkpoints(run_dir)]

    run_dir, whole = tmp_path / "run", tmp_path / "whole"
    command = ["train", *settings, "checkpoints.every=3", "checkpoints.keep_every=3"]
    saved = kill_and_repeat([*command, f"run_dir={run_dir}"], lambda: len(steps(run_dir)), lambda: steps(run_dir))
    assert set(saved) <= set(steps(run_dir))
    assert cli.run([*command, f"run_dir={whole}"]) == 0
    assert steps(run_dir) == steps(whole)
    assert_same_end(run_dir, whole)


def test_eval_loses_no_result(evaluation: tuple[list[str], Path], tmp_path: Path) -> None:
    command, undisturbed = evaluation
    killed = tmp_path / "killed"

    def lines() -> list[str]:
        path = killed / "episodes.jsonl"
        whole = path.read_text().rpartition("\n")[0] if path.exists() else ""  # the last line may be torn
        return whole.splitlines()

    saved = kill_and_repeat([*command, f"output_dir={killed}"], lambda: len(lines()), lines)
    assert lines()[: len(saved)] == saved
    found, whole = (json.loads((folder / "summary.json").read_text()) for folder in (killed, undisturbed))
    assert {**found, "latency_ms": None} == {**whole, "latency_ms": None}
    for folder in (killed, undisturbed):
        assert [path.name for path in (folder / "videos").iterdir()] == ["4242424242.mp4"]
