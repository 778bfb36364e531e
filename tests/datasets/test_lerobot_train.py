"""`lerobot-train`, as its users run it, trains on what RoboMem records."""

import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from dataset_samples import EMBODIMENT, make_episode

from robomem.datasets.config import FrameCodec
from robomem.datasets.lerobot_writer import EpisodeWriter
from robomem.spec import CameraSpec

CAMERAS = (CameraSpec(name="base", height=48, width=64), CameraSpec(name="hand", height=48, width=64))
SMALL = {
    "type": "act",
    "pretrained_backbone_weights": "null",
    "dim_model": 64,
    "dim_feedforward": 64,
    "n_encoder_layers": 1,
    "chunk_size": 4,
    "n_action_steps": 4,
    "push_to_hub": "false",
    "device": "cpu",
}


@pytest.mark.parametrize("codec", ["png", "h264"])
def test_lerobot_trains_on_it(tmp_path: Path, codec: str) -> None:
    root = tmp_path / "dataset"
    rng = np.random.default_rng(0)
    with EpisodeWriter(root, replace(EMBODIMENT, cameras=CAMERAS), codec=FrameCodec(codec=codec)) as writer:
        for seed in range(3):
            episode = make_episode(seed, ticks=6)
            images = {name: rng.integers(0, 256, (6, 48, 64, 3), dtype=np.uint8) for name in episode.images}
            writer.save(replace(episode, images=images))
    arguments = {
        "dataset.repo_id": "local/test",
        "dataset.root": root,
        "dataset.video_backend": "pyav",
        **{f"policy.{name}": value for name, value in SMALL.items()},
        "batch_size": 4,
        "steps": 2,
        "log_freq": 1,
        "num_workers": 0,
        "save_checkpoint": "false",
        "output_dir": tmp_path / "run",
    }
    command = [sys.executable, "-m", "lerobot.scripts.lerobot_train"]
    done = subprocess.run(
        [*command, *(f"--{name}={value}" for name, value in arguments.items())],
        env={**os.environ, "HF_HUB_OFFLINE": "1", "HF_HOME": str(tmp_path / "home")},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    assert "dataset.num_frames=18" in done.stderr
    assert "dataset.num_episodes=3" in done.stderr
    assert "step:2" in done.stderr
