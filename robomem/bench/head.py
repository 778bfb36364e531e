"""`robomem bench head`: how long each objective takes on each trunk."""

import json
from collections.abc import Callable
from dataclasses import asdict, dataclass
from importlib import resources
from typing import TYPE_CHECKING

import click
import torch
from rich.console import Console
from rich.table import Table
from torch.utils.benchmark import Timer

from robomem.devices import find_device
from robomem.factory import instantiate

if TYPE_CHECKING:
    from robomem.policies.heads.base import Head

CONTEXT, HORIZON, ACTION = 512, 8, 7
"""Sizes like those of a policy with the small encoder and two cameras."""
SECONDS = 0.5
"""How long each measurement goes on at least."""


@dataclass(frozen=True)
class HeadTiming:
    """What one head costs."""

    head: str
    trunk: str
    parameters: int
    loss_ms: float
    """Loss and gradients of one training step, median in milliseconds."""
    sample_ms: float
    """One call for chunks, median in milliseconds."""
    iterations: float
    """Of the trunk's core, summed over the evaluations of a call; mean over rows."""


@click.command("head")
@click.option(
    "--contexts", default=96, show_default=True, type=click.IntRange(min=1),
    help="Contexts of a training step: rows times ticks.",
)  # fmt: skip
@click.option("--rows", default=1, show_default=True, type=click.IntRange(min=1), help="Chunks sampled at once.")
@click.option("--device", default="auto", show_default=True, help="auto, cpu, cuda, cuda:1, ...")
@click.option("--json", "as_json", is_flag=True, help="Print a JSON document instead of the table.")
def main(contexts: int, rows: int, device: str, as_json: bool) -> None:
    """Time every objective on every trunk, untrained, as configured by default."""
    where = find_device(device)
    timings = [measure(head, trunk, contexts, rows, where) for head in _options("head") for trunk in _options("trunk")]
    if as_json:
        setting = {"contexts": contexts, "rows": rows, "device": str(where), "threads": torch.get_num_threads()}
        click.echo(json.dumps(setting | {"heads": [asdict(timing) for timing in timings]}, indent=2))
        return
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("head")
    table.add_column("trunk")
    for title in ("parameters", f"loss + backward of {contexts} (ms)", f"sample of {rows} (ms)", "iterations"):
        table.add_column(title, justify="right")
    for timing in timings:
        costs = (f"{timing.parameters:,}", f"{timing.loss_ms:.2f}", f"{timing.sample_ms:.2f}")
        table.add_row(timing.head, timing.trunk, *costs, f"{timing.iterations:.1f}")
    Console().print(table)


def measure(head: str, trunk: str, contexts: int, rows: int, device: torch.device) -> HeadTiming:
    """Time one head.

    Args:
        head: Option of the group `head`.
        trunk: Option of the group `trunk`.
        contexts: Of a training step.
        rows: Chunks sampled at once.
        device: Where to run.
    """
    torch.manual_seed(0)
    module = build(head, trunk).to(device)
    context = torch.randn(contexts, CONTEXT, device=device)
    actions = torch.randn(contexts, HORIZON, ACTION, device=device).clamp(-1, 1)
    weight = torch.ones(contexts, HORIZON, device=device)
    seen, noise = torch.randn(rows, CONTEXT, device=device), torch.randn(rows, HORIZON, ACTION, device=device)

    def learn() -> None:
        module.zero_grad()
        module.loss(context, actions, weight).backward()

    @torch.inference_mode()
    def sample() -> None:
        module.sample(seen, noise)

    with torch.inference_mode():
        iterations = module.sample(seen, noise).iterations.sum(1).mean()
    count = sum(parameter.numel() for parameter in module.parameters())
    return HeadTiming(head, trunk, count, _milliseconds(learn), _milliseconds(sample), float(iterations))


def build(head: str, trunk: str) -> "Head":
    """An untrained head as `robomem train head=... trunk=...` composes it."""
    from hydra import compose, initialize_config_module
    from omegaconf import OmegaConf

    from robomem.config import register_schemas

    register_schemas()
    with initialize_config_module("robomem.configs", version_base="1.3"):
        config = compose("train", [f"head={head}", f"trunk={trunk}"])
    settings = OmegaConf.to_container(config.policy.head, resolve=True)
    assert isinstance(settings, dict)
    return instantiate(settings, context=CONTEXT, horizon=HORIZON, action=ACTION)


def _options(group: str) -> list[str]:
    names = [entry.name for entry in (resources.files("robomem.configs") / group).iterdir()]
    return sorted(name.removesuffix(".yaml") for name in names if name.endswith(".yaml"))


def _milliseconds(run: Callable[[], None]) -> float:
    timer = Timer("run()", globals={"run": run}, num_threads=torch.get_num_threads())
    return 1000 * timer.blocked_autorange(min_run_time=SECONDS).median
