"""Train a `TinyPolicy`; run as a script it is there to be killed."""

import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from tiny import CONFIG, build_tiny

from robomem.config import CheckpointsConfig, OptimConfig, TrackerConfig, TrainConfig
from robomem.datasets.config import DataConfig, EpisodeAugmentation
from robomem.train import train


def tiny_config(dataset: Path, run_dir: Path, **changes: Any) -> TrainConfig:
    """A run of 20 steps of 2 lanes, with a checkpoint after every 5."""
    config = TrainConfig(
        name="tiny",
        run_dir=str(run_dir),
        max_steps=20,
        device="cpu",
        policy=CONFIG,
        data=DataConfig(
            root=str(dataset), batch_size=2, window=4, augmentation=EpisodeAugmentation(channel_permutation=0.5)
        ),
        optim=OptimConfig(lr=0.01, warmup_steps=3),
        checkpoints=CheckpointsConfig(every=5),
        tracker=TrackerConfig(every=4),
    )
    return replace(config, **changes)


if __name__ == "__main__":
    torch.set_num_threads(1)
    train(tiny_config(Path(sys.argv[1]), Path(sys.argv[2]), max_steps=int(sys.argv[3])), build=build_tiny)
