"""Training on features that a frozen encoder made before is training end to end, without the encoder."""

import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from run_ends import assert_same_end
from tiny import CONFIG, build_tiny, write_tiny_dataset
from untrained import untrained
from vision import save_model, vit_config
from windows import EMBODIMENT

from robomem import checkpoint, cli
from robomem.config import CheckpointsConfig, OptimConfig, TrackerConfig, TrainConfig
from robomem.datasets.augment import EpisodeAugmentation
from robomem.datasets.config import DataConfig
from robomem.errors import RobomemError
from robomem.train import train

pytestmark = pytest.mark.usefixtures("one_thread")


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_model(tmp_path_factory.mktemp("model") / "dinov2", "dinov2")


@pytest.fixture
def config(model: Path, tmp_path: Path) -> TrainConfig:
    """A run of 2 steps of 2 lanes, end to end."""
    policy = untrained(EMBODIMENT, "memory=gru").config | {"encoder": vit_config(model)}
    return TrainConfig(
        name="vit",
        run_dir=str(tmp_path / "end_to_end"),
        max_steps=2,
        device="cpu",
        policy=policy,
        data=DataConfig(
            root=str(write_tiny_dataset(tmp_path / "data")),
            batch_size=2,
            window=4,
            augmentation=EpisodeAugmentation(keep=0.8),
        ),
        optim=OptimConfig(lr=0.01, warmup_steps=0),
        checkpoints=CheckpointsConfig(every=1),
        tracker=TrackerConfig(every=1),
    )


def encoded(config: TrainConfig, name: str = "encoded", **changes: Any) -> TrainConfig:
    run_dir = str(Path(config.run_dir).with_name(name))
    return replace(config, run_dir=run_dir, data=replace(config.data, cache_features=True), **changes)


def losses(run_dir: Path) -> list[dict[str, float]]:
    lines = [json.loads(line) for line in (run_dir / "metrics.jsonl").read_text().splitlines()]
    return [{name: value for name, value in line.items() if name.startswith("loss")} for line in lines]


def test_it_has_the_losses_of_training_end_to_end(config: TrainConfig, capsys: pytest.CaptureFixture[str]) -> None:
    end_to_end, from_features = train(config), train(encoded(config))
    assert "encoding 90 frames of 8 episodes, 11.5 kB, into" in capsys.readouterr().out
    pairs = list(zip(losses(end_to_end), losses(from_features), strict=True))
    assert len(pairs) == 2
    for expected, found in pairs:
        assert found == pytest.approx(expected, rel=5e-3)
        assert found != expected  # of rounded features


def test_frames_are_encoded_once_and_not_read_again(
    config: TrainConfig, model: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    spec = f"vit:backbone.model={model},backbone.grid=2"
    assert cli.run(["data", "cache", config.data.root, spec, "--device", "cpu"]) == 0
    assert "data.cache_features=true" in capsys.readouterr().out
    files = {path: path.stat().st_mtime_ns for path in config.data.features_folder.rglob("*.npy")}
    assert {path.name for path in files} == {"base.npy", "hand.npy"}
    train(encoded(config))
    assert "encoding" not in capsys.readouterr().out
    assert {path: path.stat().st_mtime_ns for path in files} == files


def test_stopped_run_ends_as_one_that_was_not(config: TrainConfig) -> None:
    """Its features are those of the weights in the checkpoint."""
    whole = train(encoded(config, "whole"))
    train(encoded(config, max_steps=1))
    assert_same_end(train(encoded(config)), whole)


def test_checkpoint_needs_no_file_of_the_model_and_has_no_moments_of_it(config: TrainConfig, model: Path) -> None:
    copy = shutil.copytree(model, Path(config.run_dir).with_name("copy"))
    run_dir = train(encoded(config, policy=config.policy | {"encoder": vit_config(copy)}))
    shutil.rmtree(copy)
    policy = checkpoint.load(run_dir)
    frozen = {name for name, _ in policy.named_parameters() if ".backbone." in name}  # pyright: ignore
    moments = checkpoint.load_tensors(checkpoint.resolve(run_dir) / "training" / "optimizer.safetensors")
    assert frozen
    assert not [name for name in moments if ".backbone." in name]


def test_encoder_that_learns_is_refused(config: TrainConfig) -> None:
    message = r"cache_features=true needs an encoder that never learns.*set encoder=vit, or data\.cache_features=false"
    small = untrained(EMBODIMENT, "policy.encoder.patch=16").config
    with pytest.raises(RobomemError, match=message):
        train(encoded(config, policy=small))
    with pytest.raises(RobomemError, match=message):
        train(encoded(config, "tiny", policy=CONFIG), build=build_tiny)


def test_command_refuses_what_cannot_be_kept(config: TrainConfig, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.run(["data", "cache", config.data.root, "small"]) == 1
    assert "the encoder small has no frozen backbone" in capsys.readouterr().err
    command = ["train", "experiment=remember_color", "encoder=vit", "data.cache_features=true"]
    assert cli.run(command) == 1
    assert "set data.augmentation.channel_permutation=0, or data.cache_features=false" in capsys.readouterr().err


def test_features_lie_where_they_are_told_to(config: TrainConfig, tmp_path: Path) -> None:
    assert config.data.features_folder == Path(f"{config.data.root}.features")
    told = replace(config.data, features_root=str(tmp_path / "disk"), cache_features=True)
    train(replace(config, data=told))
    arrays = [np.load(path) for path in (tmp_path / "disk").rglob("*.npy")]
    assert [array.dtype for array in arrays] == [np.float16] * 2
