"""`robomem bench head`: how long each objective takes on each trunk."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from itertools import product
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

import click
import torch
from rich.console import Console
from rich.table import Table

from robomem.bench.timing import milliseconds
from robomem.devices import find_device
from robomem.factory import instantiate
from robomem.files import write_json
from robomem.groups import options

if TYPE_CHECKING:
    from robomem.policies.heads.base import Head

CONTEXT, HORIZON, ACTION = 512, 8, 7
"""Sizes like those of a policy with the small encoder and two cameras."""


@dataclass(frozen=True)
class HeadTiming:
    """What one head costs; times are medians in milliseconds."""

    head: str
    trunk: str
    parameters: int
    loss_ms: float
    """Loss and gradients of one training step."""
    sample_ms: float
    """One call for chunks."""
    iterations: float
    """Of the trunk's core, summed over the evaluations of a call; mean over rows."""


class Subject:
    """An untrained head with inputs for it."""

    def __init__(self, head: str, trunk: str, contexts: int, rows: int, device: torch.device) -> None:
        """Build the head of two options as `robomem train head=... trunk=...` does.

        Args:
            head: Option of the group `head`.
            trunk: Option of the group `trunk`.
            contexts: Of a training step.
            rows: Chunks sampled at once.
            device: Where to run.
        """
        torch.manual_seed(0)
        self.names, self.device = (head, trunk), device
        made: Head = instantiate(_compose(head, trunk), context=CONTEXT, horizon=HORIZON, action=ACTION)
        self.head = made.to(device)
        self.context = torch.randn(contexts, CONTEXT, device=device)
        self.actions = torch.randn(contexts, HORIZON, ACTION, device=device).clamp(-1, 1)
        self.weight = torch.ones(contexts, HORIZON, device=device)
        self.noise = torch.randn(rows, HORIZON, ACTION, device=device)
        self.seen = torch.randn(rows, CONTEXT, device=device)

    def learn(self) -> None:
        """Loss and gradients."""
        self.head.zero_grad()
        self.head.loss(self.context, self.actions, self.weight).backward()

    @torch.inference_mode()
    def sample(self) -> float:
        """Make chunks; gives the iterations of a row."""
        return float(self.head.sample(self.seen, self.noise).iterations.sum(1).mean())

    def timing(self, times: Sequence[tuple[float, float]]) -> HeadTiming:
        """The result of measurements of `learn` and `sample`."""
        parameters = sum(parameter.numel() for parameter in self.head.parameters())
        learned, sampled = map(median, zip(*times, strict=True))
        return HeadTiming(*self.names, parameters, learned, sampled, self.sample())


@click.command("head")
@click.option(
    "--contexts", default=96, show_default=True, type=click.IntRange(min=1),
    help="Contexts of a training step: rows times ticks.",
)  # fmt: skip
@click.option("--rows", default=1, show_default=True, type=click.IntRange(min=1), help="Chunks sampled at once.")
@click.option("--repeats", default=20, show_default=True, type=click.IntRange(min=1), help="Measurements of each.")
@click.option("--device", default="auto", show_default=True, help="auto, cpu, cuda, cuda:1, ...")
@click.option("--output", "-o", type=click.Path(dir_okay=False, path_type=Path), help="Write a JSON document too.")
def main(repeats: int, device: str, output: Path | None, **sizes: int) -> None:
    """Time every objective on every trunk, untrained, as configured by default."""
    where = find_device(device)
    pairs = product(options("head"), options("trunk"))
    timings = measure([Subject(*pair, **sizes, device=where) for pair in pairs], repeats)
    setting = {**sizes, "repeats": repeats, "device": str(where), "threads": torch.get_num_threads()}
    _print(timings, setting)
    if output is not None:
        write_json(output, setting | {"heads": [asdict(timing) for timing in timings]})


def measure(subjects: Sequence[Subject], repeats: int) -> list[HeadTiming]:
    """Time heads, one after another and that several times, so that a busy machine slows all of them."""
    times: list[list[tuple[float, float]]] = [[] for _ in subjects]
    for _ in range(1 + repeats):
        for subject, measured in zip(subjects, times, strict=True):
            measured.append((milliseconds(subject.learn, subject.device), milliseconds(subject.sample, subject.device)))
    return [subject.timing(measured[1:]) for subject, measured in zip(subjects, times, strict=True)]


def _compose(head: str, trunk: str) -> dict[str, Any]:
    from hydra import compose, initialize_config_module
    from omegaconf import OmegaConf

    from robomem.config import register_schemas

    register_schemas()
    with initialize_config_module("robomem.configs", version_base="1.3"):
        config = compose("train", [f"head={head}", f"trunk={trunk}"])
    return OmegaConf.to_object(config.policy.head)  # pyright: ignore[reportReturnType] - a mapping, as composed


def _print(timings: Sequence[HeadTiming], setting: dict[str, Any]) -> None:
    console = Console()
    table = Table(box=None, pad_edge=False, header_style="bold")
    for title in ("head", "trunk"):
        table.add_column(title, no_wrap=True)
    for title in ("parameters", "loss + gradients (ms)", "sample (ms)", "iterations"):
        table.add_column(title, justify="right")
    for timing in timings:
        costs = f"{timing.loss_ms:.2f}", f"{timing.sample_ms:.2f}", f"{timing.iterations:.1f}"
        table.add_row(timing.head, timing.trunk, f"{timing.parameters:,}", *costs)
    console.print(table)
    console.print(", ".join(f"{name} {value}" for name, value in setting.items()), style="dim")
