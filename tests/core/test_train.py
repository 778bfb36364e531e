"""Training: interrupted in any way, it ends where an uninterrupted run ends; what is wrong is said in one line."""

import json
import os
import resource
import shutil
import signal
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import yaml
from filelock import FileLock
from run_ends import assert_same_end, contents, lines
from tiny import CONFIG, EMBODIMENT, TinyPolicy, build_tiny, tiny_episode, write_tiny_dataset
from torch import nn

from robomem import checkpoint
from robomem.config import CheckpointsConfig, OptimConfig, TrackerConfig, TrainConfig
from robomem.contract import Memory, Window
from robomem.datasets.augment import EpisodeAugmentation
from robomem.datasets.config import DataConfig, MixedIn
from robomem.datasets.lerobot_reader import EpisodeReader
from robomem.datasets.lerobot_writer import EpisodeWriter
from robomem.datasets.open import open_training_data
from robomem.datasets.sequences import SequenceBatches
from robomem.errors import NonFiniteError, RobomemError, SpecMismatch
from robomem.train import train
from robomem.training.learner import learning_rate

pytestmark = pytest.mark.usefixtures("one_thread")

TESTS = Path(__file__).parents[1]


@pytest.fixture(scope="module")
def dataset(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_tiny_dataset(tmp_path_factory.mktemp("data") / "tiny")


@pytest.fixture
def config(dataset: Path, tmp_path: Path) -> TrainConfig:
    """A run of 20 steps of 2 lanes, with a checkpoint after every 5."""
    augmentation = EpisodeAugmentation(channel_permutation=0.5)
    return TrainConfig(
        name="tiny",
        run_dir=str(tmp_path / "run"),
        max_steps=20,
        device="cpu",
        policy=CONFIG,
        data=DataConfig(root=str(dataset), batch_size=2, window=4, augmentation=augmentation),
        optim=OptimConfig(lr=0.01, warmup_steps=3),
        checkpoints=CheckpointsConfig(every=5),
        tracker=TrackerConfig(every=4),
    )


class Hooked(TinyPolicy):
    """Calls something before its loss, with the number of the step within this process."""

    hook: Callable[[int], None]
    calls = 0

    def loss(self, window: Window, memory: Memory) -> tuple[dict[str, torch.Tensor], Memory]:
        self.calls += 1
        self.hook(self.calls)
        return super().loss(window, memory)


def hooked(hook: Callable[[int], None]) -> checkpoint.BuildPolicy:
    """Builds a policy that calls a hook."""

    def build(policy: Any, spec: Any, statistics: Any) -> nn.Module:
        made = Hooked(spec, statistics, hidden=policy["hidden"], noise=policy["noise"])
        made.hook = hook
        return made

    return build


def at(step: int, act: Callable[[], object]) -> Callable[[int], None]:
    def hook(number: int) -> None:
        if number == step:
            act()

    return hook


def run(config: TrainConfig, build: checkpoint.BuildPolicy = build_tiny) -> Path:
    return train(config, build=build)


def test_run_folder_holds_what_was_run(config: TrainConfig) -> None:
    run_dir = train(config, ["seed=0"], build_tiny)
    assert {path.name for path in run_dir.iterdir()} - {".lock"} == {
        *("checkpoints", "config.yaml", "git.json", "metrics.jsonl", "overrides.yaml"),
    }
    assert sorted(path.name for path in (run_dir / "checkpoints").iterdir()) == [
        *("last", "step-00000015", "step-00000020"),
    ]
    assert (run_dir / "checkpoints/last").readlink() == Path("step-00000020")
    assert (run_dir / "overrides.yaml").read_text() == "- seed=0\n"
    assert set(json.loads((run_dir / "git.json").read_text())) == {"sha", "dirty", "diff"}
    names = {"step", "loss", "loss/l1", "loss/decay", "lr", "grad_norm"}
    assert [(line["step"], set(line)) for line in lines(run_dir)] == [(step, names) for step in (4, 8, 12, 16, 20)]
    policy = checkpoint.load(run_dir, build=build_tiny)
    assert policy.spec.embodiment == EMBODIMENT
    assert (policy.spec.horizon, policy.spec.observe_period, policy.spec.max_gap) == (3, 0.05, 0.1)


def test_the_policy_is_trusted_with_the_gaps_it_was_trained_on(config: TrainConfig, dataset: Path) -> None:
    """Those between the ticks that augmentation keeps."""
    thinned = EpisodeAugmentation(keep=0.3)
    run_dir = run(replace(config, data=replace(config.data, augmentation=thinned), max_steps=1))
    windows = SequenceBatches(EpisodeReader(dataset), 2, 4, 3, config.seed, thinned).epoch(0)
    gaps = np.concatenate([window.dt[window.valid & ~window.is_first].numpy() for window in windows])
    trusted = checkpoint.load(run_dir, build=build_tiny).spec.max_gap
    assert trusted > 0.1
    assert np.isclose(gaps, trusted).any()
    assert (gaps > trusted + 1e-6).mean() <= 0.01


def test_training_learns(config: TrainConfig) -> None:
    """The actions follow from the colour of the frames, so the loss must fall well below that of a guess."""
    run_dir = run(replace(config, max_steps=150, checkpoints=CheckpointsConfig(every=1000)))
    values = [line["loss"] for line in lines(run_dir)]
    assert np.mean(values[-5:]) < 0.5 * values[0]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("ema", [0.0, 0.9])
def test_stopped_run_ends_as_one_that_was_not(
    ema: float, number: signal.Signals, config: TrainConfig, tmp_path: Path
) -> None:
    config = replace(config, optim=replace(config.optim, ema=ema))
    whole = run(replace(config, run_dir=str(tmp_path / "whole")))
    for steps in (7, 6):
        with pytest.raises(KeyboardInterrupt if number is signal.SIGINT else SystemExit) as stopped:
            run(config, hooked(at(steps, lambda: os.kill(os.getpid(), number))))
        assert getattr(stopped.value, "code", 143) == 143
    assert checkpoint.steps_of(checkpoint.resolve(config.run_dir)) == 13
    assert_same_end(run(config), whole)


def test_crashed_run_ends_as_one_that_was_not(config: TrainConfig, tmp_path: Path) -> None:
    """The steps after the last checkpoint are done again, and their metrics replaced."""

    def crash() -> None:
        raise ZeroDivisionError

    whole = run(replace(config, run_dir=str(tmp_path / "whole")))
    with pytest.raises(ZeroDivisionError):
        run(config, hooked(at(10, crash)))
    assert lines(Path(config.run_dir))[-1]["step"] == 8
    with (Path(config.run_dir) / "metrics.jsonl").open("a") as file:
        file.write('{"step": 9, "lo')
    assert_same_end(run(config), whole)


def test_finished_run_is_left_alone(config: TrainConfig, capsys: pytest.CaptureFixture[str]) -> None:
    before = contents(run(config))
    capsys.readouterr()
    run_dir = run(config)
    assert "is finished; raise max_steps" in capsys.readouterr().out
    assert contents(run_dir) == before
    assert checkpoint.steps_of(checkpoint.resolve(run(replace(config, max_steps=22)))) == 22


def test_run_with_other_settings_is_refused_naming_both(config: TrainConfig) -> None:
    run(config)
    changed = replace(config, optim=replace(config.optim, lr=0.5), policy={**CONFIG, "hidden": 9}, device="auto")
    with pytest.raises(RobomemError, match=r"optim.lr: there 0.01, now 0.5; policy.hidden: there 8, now 9") as caught:
        run(changed)
    assert f"resume={config.run_dir}" in str(caught.value)
    assert "device" not in str(caught.value)


def test_a_run_from_before_a_setting_was_known_goes_on(config: TrainConfig) -> None:
    path = run(config) / "config.yaml"
    saved = yaml.safe_load(path.read_text())
    del saved["data"]["augmentation"]["jitter"], saved["optim"]["ema"]
    path.write_text(yaml.safe_dump(saved))
    assert checkpoint.steps_of(checkpoint.resolve(run(replace(config, max_steps=22)))) == 22
    path.write_text(yaml.safe_dump(saved))
    with pytest.raises(RobomemError, match=r"optim.ema: there 0.0, now 0.9"):
        run(replace(config, optim=replace(config.optim, ema=0.9)))


def test_a_run_on_a_mixture_sees_each_dataset_as_often_as_its_weight_says(config: TrainConfig, tmp_path: Path) -> None:
    other = write_tiny_dataset(tmp_path / "other", episodes=4, first_seed=50)
    mixed = replace(config, data=replace(config.data, mix=[MixedIn(root=str(other), weight=2.0)]), max_steps=4)
    run_dir = run(mixed)
    assert checkpoint.steps_of(checkpoint.resolve(run_dir)) == 4
    ticks = checkpoint.read_statistics(checkpoint.resolve(run_dir)).ticks
    reader, visits = open_training_data(mixed.data)
    assert ticks == sum(reader.lengths)
    assert reader.seeds[-4:] == (50, 51, 52, 53)
    assert visits == [1.0] * (len(reader) - 4) + [2.0] * 4
    with pytest.raises(RobomemError, match=r"the weight 0\.0 of .*other must be positive"):
        MixedIn(root=str(other), weight=0.0)


def test_other_dataset_is_refused_naming_both(config: TrainConfig, dataset: Path, tmp_path: Path) -> None:
    root = tmp_path / "data"
    shutil.copytree(dataset, root)
    config = replace(config, data=replace(config.data, root=str(root)))
    run(config)
    with EpisodeWriter(root, EMBODIMENT) as writer:
        writer.save(tiny_episode(100))
    with pytest.raises(SpecMismatch, match=r"statistics_hash: the run .* has '\w+', the dataset .* has '\w+'"):
        run(replace(config, max_steps=30))
    shutil.rmtree(root)
    fewer = replace(EMBODIMENT, cameras=EMBODIMENT.cameras[:1])
    with EpisodeWriter(root, fewer) as writer:
        for seed in range(3):
            episode = tiny_episode(seed)
            writer.save(replace(episode, images={"base": episode.images["base"]}))
    with pytest.raises(
        SpecMismatch, match=r"cameras: the run .* has \['base', 'hand'\], the dataset .* has \['base'\]"
    ):
        run(replace(config, max_steps=30))


def test_run_folder_is_for_one_process(config: TrainConfig) -> None:
    Path(config.run_dir).mkdir()
    with FileLock(Path(config.run_dir) / ".lock"), pytest.raises(RobomemError, match="another process trains in"):
        run(config)
    run(config)


def test_checkpoints_that_stay(config: TrainConfig) -> None:
    run_dir = run(replace(config, checkpoints=CheckpointsConfig(every=2, keep_last=1, keep_every=8)))
    assert [checkpoint.steps_of(path) for path in checkpoint.list_checkpoints(run_dir)] == [8, 16, 20]


def test_infinite_loss_stops_the_run_and_keeps_the_last_good_checkpoint(config: TrainConfig) -> None:
    made: list[nn.Module] = []

    def build(*parts: Any) -> nn.Module:
        made.append(hooked(at(8, lambda: nn.init.constant_(made[0].get_parameter("head.bias"), float("nan"))))(*parts))
        return made[0]

    with pytest.raises(NonFiniteError) as caught:
        run(config, build)
    assert str(caught.value).startswith(
        "training stopped at step 8: the loss term 'l1' is nan; the last good checkpoint"
    )
    assert f"{config.run_dir}/checkpoints/step-00000005" in str(caught.value)
    assert "lower optim.lr" in str(caught.value)
    assert checkpoint.steps_of(checkpoint.resolve(config.run_dir)) == 5


def test_infinite_gradient_is_named(config: TrainConfig) -> None:
    class Rooted(TinyPolicy):
        def loss(self, window: Window, memory: Memory) -> tuple[dict[str, torch.Tensor], Memory]:
            losses, memory = super().loss(window, memory)
            return {**losses, "root": (0 * self.head.bias).square().sum().sqrt()}, memory

    def build(policy: Any, spec: Any, statistics: Any) -> nn.Module:
        return Rooted(spec, statistics, hidden=8, noise=0.1)

    with pytest.raises(NonFiniteError, match=r"step 1: the gradient of head\.bias .* checkpoint is none"):
        run(config, build)


def test_full_disk_keeps_the_last_good_checkpoint(config: TrainConfig, tmp_path: Path) -> None:
    whole = run(replace(config, run_dir=str(tmp_path / "whole")))
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    fill = hooked(at(9, lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (1500, hard))))
    try:
        with pytest.raises(RobomemError, match=r"the checkpoint of step 10 was not saved.*Free some space"):
            run(config, fill)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    left = sorted(path.name for path in (Path(config.run_dir) / "checkpoints").iterdir())
    assert left == ["last", "step-00000005"]
    assert_same_end(run(config), whole)


def test_minutes_end_a_run_and_its_schedule(config: TrainConfig) -> None:
    config = replace(config, max_steps=None, max_minutes=0.02, tracker=TrackerConfig(every=1))
    run_dir = run(config)
    measured = [json.loads(line) for line in (run_dir / "metrics.jsonl").read_text().splitlines()]
    times = [0.0, *(line["time_s"] for line in measured)]
    assert times[-2] < 1.2 <= times[-1]
    for step, line in enumerate(measured):
        assert line["lr"] == pytest.approx(learning_rate(config.optim, step, share=times[step] / 1.2))


def test_bfloat16_trains(config: TrainConfig) -> None:
    run_dir = run(replace(config, precision="bfloat16", max_steps=3))
    assert lines(run_dir)[0]["loss"] > 0


def test_missing_device_is_refused(config: TrainConfig) -> None:
    with pytest.raises(RobomemError, match=r"device=cudaa cannot be used here.*set device=auto"):
        run(replace(config, device="cudaa"))
