"""`robomem bench memory`: what each memory module gains by taking all ticks of a window at once."""

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
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
from robomem.probes.model import module_config

if TYPE_CHECKING:
    from robomem.policies.memory.base import MemoryModule

Inputs = tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]
"""Tokens, dt, valid and is_first of a window."""


@dataclass(frozen=True)
class MemoryTiming:
    """What one module costs; times are medians in milliseconds, of outputs and gradients of a window."""

    memory: str
    parameters: int
    state: int
    """Numbers that are remembered for a row."""
    scan_ms: float
    steps_ms: float
    """The same by `step`, tick after tick."""

    @property
    def ratio(self) -> float:
        """How many times faster the scan is."""
        return self.steps_ms / self.scan_ms


@click.command("memory")
@click.argument("names", nargs=-1, metavar="[MODULE]...")
@click.option("--ticks", default=512, show_default=True, type=click.IntRange(min=1), help="T, of a window.")
@click.option("--rows", default=8, show_default=True, type=click.IntRange(min=1), help="B, windows at once.")
@click.option(
    "--patches", default=2, show_default=True, type=click.IntRange(min=1), help="On each side of the one image."
)
@click.option("--channels", default=64, show_default=True, type=click.IntRange(min=8), help="D, of a token.")
@click.option("--repeats", default=5, show_default=True, type=click.IntRange(min=1), help="Measurements of each.")
@click.option("--device", default="auto", show_default=True, help="auto, cpu, cuda, cuda:1, ...")
@click.option("--output", "-o", type=click.Path(dir_okay=False, path_type=Path), help="Write a JSON document too.")
def main(names: tuple[str, ...], repeats: int, device: str, output: Path | None, **sizes: int) -> None:
    """Time `scan` against repeated `step`, with gradients, for untrained memory modules.

    MODULE is an option of the group memory, by default each; settings may follow it: `flow:cell.prior=true`. Tokens
    count in both times: what only a recurrence costs shows with few patches.
    """
    where = find_device(device)
    timings = [measure(name, repeats=repeats, device=where, **sizes) for name in names or options("memory")]
    setting = {**sizes, "repeats": repeats, "device": str(where), "threads": torch.get_num_threads()}
    _print(timings, setting)
    if output is not None:
        write_json(output, setting | {"memories": [asdict(timing) | {"ratio": timing.ratio} for timing in timings]})


def measure(
    name: str, *, ticks: int, rows: int, patches: int, channels: int, repeats: int, device: torch.device
) -> MemoryTiming:
    """Time one module; its two ways alternate, so that a busy machine slows both.

    Args:
        name: An option of the group `memory`, and settings.
        ticks: T.
        rows: B.
        patches: On each side of one image.
        channels: D.
        repeats: Measurements of each way.
        device: Where to run.

    Raises:
        RobomemError: there is no such module.
    """
    from robomem.policies.memory.base import MemoryModule
    from robomem.policies.tokens import Layout

    torch.manual_seed(0)
    layout = Layout(cameras=1, height=patches, width=patches, channels=channels)
    module: MemoryModule = instantiate(module_config("memory", name), layout=layout).to(device)
    tokens = torch.randn(rows, ticks, layout.tokens, channels, device=device)
    dt = 0.04 + 0.02 * torch.rand(rows, ticks, device=device)
    valid, is_first = torch.ones_like(dt, dtype=torch.bool), torch.zeros_like(dt, dtype=torch.bool)
    inputs = tokens, dt, valid, is_first
    scans, steps = [], []
    for _ in range(repeats):
        scans.append(milliseconds(lambda: _learn(module, module.scan, inputs), device))
        steps.append(milliseconds(lambda: _learn(module, lambda *a: MemoryModule.scan(module, *a), inputs), device))
    parameters = sum(parameter.numel() for parameter in module.parameters())
    state = sum(value.numel() for value in module.init(1).values())
    return MemoryTiming(name, parameters, state, median(scans), median(steps))


def _learn(module: "MemoryModule", scan: Callable[..., Any], inputs: Inputs) -> None:
    """Outputs and gradients of one window, the gradients of its tokens among them."""
    tokens = inputs[0].detach().requires_grad_()
    module.zero_grad()
    enriched, _ = scan(module.init(len(tokens)), tokens, *inputs[1:])
    enriched.backward(inputs[0])


def _print(timings: Sequence[MemoryTiming], setting: dict[str, Any]) -> None:
    console = Console()
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("memory")
    for title in ("parameters", "state", "scan (ms)", "steps (ms)", "ratio"):
        table.add_column(title, justify="right")
    for timing in timings:
        sizes = f"{timing.parameters:,}", f"{timing.state:,}"
        table.add_row(timing.memory, *sizes, f"{timing.scan_ms:.1f}", f"{timing.steps_ms:.1f}", f"{timing.ratio:.1f}")
    console.print(table)
    console.print(", ".join(f"{name} {value}" for name, value in setting.items()), style="dim")
