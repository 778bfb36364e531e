"""`robomem bench features`: training on kept features beside training end to end with the frozen encoder."""

import os
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import click
import numpy as np
import torch

from robomem.bench.timing import milliseconds
from robomem.devices import find_device
from robomem.files import write_json
from robomem.spec import EmbodimentSpec

if TYPE_CHECKING:
    from robomem.contract import Window
    from robomem.datasets.lerobot_reader import EpisodeReader


@dataclass(frozen=True)
class FeaturesTiming:
    """Medians of training steps in milliseconds, loading included; and what encoding took."""

    end_to_end_ms: float
    features_ms: float
    encoding_s: float
    """Seconds for all frames, once."""
    frames: int

    @property
    def ratio(self) -> float:
        """How many times more steps a second there are from features."""
        return self.end_to_end_ms / self.features_ms


@click.command("features")
@click.option("--rows", default=4, show_default=True, type=click.IntRange(min=1), help="B, of a window.")
@click.option("--ticks", default=4, show_default=True, type=click.IntRange(min=1), help="T, of a window.")
@click.option("--repeats", default=5, show_default=True, type=click.IntRange(min=1), help="Measurements of each.")
@click.option("--model", help="Id on the Hugging Face hub, or a folder.  [default: ViT-B/16, 224 x 224, untrained]")
@click.option("--grid", default=8, show_default=True, type=click.IntRange(min=2), help="Of features, on each side.")
@click.option("--device", default="auto", show_default=True, help="auto, cpu, cuda, cuda:1, ...")
@click.option("--output", "-o", type=click.Path(dir_okay=False, path_type=Path), help="Write a JSON document too.")
def main(model: str | None, grid: int, device: str, output: Path | None, **sizes: int) -> None:
    """Time training steps of `policy=memory_vla encoder=vit` on a dataset made up, two cameras of 128 x 128 pixels.

    Steps on frames and steps on kept features alternate, so that a busy machine slows both.
    """
    from rich.console import Console

    where = find_device(device)
    timing = measure(backbone_settings(model, grid), **sizes, device=where)
    setting = {**sizes, "grid": grid, "device": str(where), "threads": torch.get_num_threads()}
    setting["load"] = round(os.getloadavg()[0], 1)
    console = Console(highlight=False, soft_wrap=True)
    console.print(f"a step end to end {timing.end_to_end_ms:,.0f} ms, on features {timing.features_ms:,.1f} ms")
    console.print(f"{timing.ratio:.1f} times the steps per second", style="bold")
    console.print(f"encoding {timing.frames} frames, once, {timing.encoding_s:.1f} s")
    console.print(", ".join(f"{name} {value}" for name, value in setting.items()), style="dim")
    if output is not None:
        write_json(output, setting | asdict(timing) | {"ratio": timing.ratio})


def measure(backbone: dict[str, Any], *, rows: int, ticks: int, repeats: int, device: torch.device) -> FeaturesTiming:
    """Time both ways of training one policy.

    Args:
        backbone: Its settings.
        rows: B.
        ticks: T.
        repeats: Steps of each way; one more warms up.
        device: Where to run.

    Raises:
        RobomemError: there is no such model.
    """
    from robomem.datasets.lerobot_reader import EpisodeReader
    from robomem.datasets.sequences import SequenceBatches
    from robomem.training.features import encode_frames, frozen_encoder

    with TemporaryDirectory() as folder:
        reader = EpisodeReader(_record(Path(folder) / "data", rows, ticks * (1 + repeats)), cache_bytes=2**30)
        trainee = _Trainee(reader, rows, backbone, device)
        batches = SequenceBatches(reader, rows, ticks, trainee.horizon, seed=0)
        kept: list[Any] = []
        encoder = frozen_encoder(trainee.policy)
        encoding = milliseconds(lambda: kept.append(encode_frames(reader, encoder, Path(folder))), device)
        streams = batches.epoch(0), batches.encoded(kept[0]).epoch(0)
        steps = [[milliseconds(lambda s=s: trainee.learn(s), device) for s in streams] for _ in range(1 + repeats)]
        frames = sum(reader.lengths) * len(reader.embodiment.cameras)
    end_to_end, features = (median(times) for times in zip(*steps[1:], strict=True))
    return FeaturesTiming(end_to_end, features, encoding / 1000, frames)


class _Trainee:
    """A policy, and how it learns."""

    def __init__(self, reader: "EpisodeReader", rows: int, backbone: dict[str, Any], device: torch.device) -> None:
        from robomem.config import OptimConfig
        from robomem.datasets.statistics import compute_statistics
        from robomem.policies.build import build_policy
        from robomem.training.learner import make_learner
        from robomem.training.run import make_spec
        from robomem.training.step import StepSettings

        torch.manual_seed(0)
        config, statistics = _compose(backbone), compute_statistics(reader)
        self.horizon: int = config["horizon"]
        spec = make_spec(reader.embodiment, self.horizon, gap=0.0, statistics=statistics)
        self.policy = build_policy(config, spec, statistics).to(device).train()
        self._settings = StepSettings(device, autocast=False, clip=1.0)
        self._learner = make_learner(self.policy, OptimConfig())
        self._start = self.policy.init_memory(rows)

    def learn(self, windows: "Iterator[Window]") -> None:
        """Take one window and learn from it."""
        from robomem.training.step import train_step

        window = next(windows).to(self._settings.device)
        train_step(self._learner, window, self._start, 1e-4, self._settings)


def _record(root: Path, episodes: int, ticks: int) -> Path:
    """A dataset of the benchmark's robot, whose cameras see plain colours and whose actions are noise."""
    from robomem.datasets.lerobot_writer import EpisodeWriter
    from robomem.episode import Episode
    from robomem.sim.embodiment import MIKASA

    embodiment: EmbodimentSpec = MIKASA
    rng = np.random.default_rng(0)
    with EpisodeWriter(root, embodiment) as writer:
        for seed in range(episodes):
            colours = rng.integers(0, 256, (ticks, 1, 1, 3), np.uint8)
            episode = Episode(
                images={c.name: np.tile(colours, (1, c.height, c.width, 1)) for c in embodiment.cameras},
                proprio=rng.normal(size=(ticks, embodiment.proprio.size)).astype(np.float32),
                actions=rng.uniform(-1, 1, (ticks, embodiment.action.size)).astype(np.float32),
                timestamps=embodiment.action_dt * np.arange(ticks),
                reward=np.zeros(ticks, np.float32),
                success=np.zeros(ticks, np.bool_),
                instruction="touch the cube",
                seed=seed,
            )
            writer.save(episode)
    return root


def _compose(backbone: dict[str, Any]) -> dict[str, Any]:
    """The settings of the policy, with those of a backbone in its encoder."""
    from hydra import compose, initialize_config_module
    from omegaconf import OmegaConf

    from robomem.config import register_schemas

    register_schemas()
    with initialize_config_module("robomem.configs", version_base="1.3"):
        config: Any = OmegaConf.to_object(compose("train", ["policy=memory_vla", "encoder=vit"]).policy)
    config["encoder"]["backbone"].update(backbone)
    return config


def backbone_settings(model: str | None, grid: int) -> dict[str, Any]:
    """Settings of a model, or of ViT-B/16 with random weights."""
    if model:
        return {"model": model, "grid": grid}
    from transformers import ViTConfig

    from robomem.policies.encoders.pretrained import Preprocessing, architecture_of

    half = (0.5,) * 3
    preparing = Preprocessing(height=224, width=224, filter="bilinear", scale=1 / 255, mean=half, std=half)
    architecture = architecture_of(ViTConfig())
    return {"model": "ViT-B/16", "grid": grid, "architecture": architecture, "preprocessing": asdict(preparing)}
