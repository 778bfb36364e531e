"""`robomem quickstart`: the whole way on one task, as the commands that a user would type."""

import json
import shlex
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

from robomem.errors import RobomemError

MEMORY, CONTROL, BASELINES = "memory_vla", "memoryless", ("oracle", "sweep")


@dataclass(frozen=True)
class Plan:
    """Folders and sizes of a quickstart."""

    env_id: str
    folder: Path
    demonstrations: int
    episodes: int
    steps: int

    @property
    def dataset(self) -> Path:
        """Of the demonstrations."""
        return self.folder / "data" / self.env_id

    def run(self, policy: str) -> Path:
        """Folder of a training run."""
        return self.folder / policy

    def records(self, name: str) -> Path:
        """Folder of the evaluation of a policy or a baseline."""
        if name in BASELINES:
            return self.folder / f"baseline-{name}"
        return self.run(name) / "eval" / self.env_id

    def commands(self) -> list[list[str]]:
        """The command lines, in order; each continues what an earlier attempt left."""
        lite = [f"sim.env_id={self.env_id}", "sim.render=lite"]
        exact = [f"sim.env_id={self.env_id}", "sim.render=exact"]
        training = [
            [
                "train",
                f"experiment={_experiment(self.env_id)}",
                f"policy={policy}",
                f"data.root={self.dataset}",
                f"run_dir={self.run(policy)}",
                f"max_steps={steps}",
            ]
            for policy, steps in ((MEMORY, self.steps), (CONTROL, -(-self.steps // 2)))
        ]
        evaluations = [
            ["eval", f"checkpoint={self.run(policy)}", f"episodes={self.episodes}", "replan_every=2", *exact]
            for policy in (MEMORY, CONTROL)
        ]
        baselines = [
            ["eval", f"baseline={name}", f"episodes={self.episodes}", f"output_dir={self.records(name)}", *lite[:1]]
            for name in BASELINES
        ]
        audit = ["audit", f"checkpoint={self.run(MEMORY)}", f"dataset={self.dataset}", "replan_every=2", *lite]
        collection = [
            "collect",
            f"root={self.dataset}",
            f"episodes={self.demonstrations}",
            "demonstration.noise=0.6",
            *lite,
        ]
        report = ["report", *map(str, (self.run(MEMORY), self.run(CONTROL), *map(self.records, BASELINES)))]
        return [
            collection,
            *training,
            *evaluations,
            *baselines,
            audit,
            [*report, "--output", str(self.folder / "report.html")],
        ]


@click.command(name="quickstart")
@click.option("--env-id", default="RememberColor3-VLA-v0", show_default=True, help="Task of MIKASA-Robo-VLA.")
@click.option("--output", default="outputs/quickstart", show_default=True, type=click.Path(path_type=Path))
@click.option(
    "--demonstrations", default=320, show_default=True, type=click.IntRange(1), help="Oracle trajectories to collect."
)
@click.option(
    "--episodes",
    default=50,
    show_default=True,
    type=click.IntRange(1),
    help="Evaluation episodes, on the benchmark's seeds.",
)
@click.option(
    "--steps",
    default=600,
    show_default=True,
    type=click.IntRange(1),
    help="Training steps of the memory policy; its control takes half.",
)
def main(env_id: str, output: Path, demonstrations: int, episodes: int, steps: int) -> None:
    """Collect demonstrations, train a memory policy and its memoryless control, evaluate, audit and report.

    Every step is a `robomem` command, shown before it runs; an interrupted quickstart goes on where it stopped.
    """
    plan = Plan(env_id, output, demonstrations, episodes, steps)
    for number, command in enumerate(commands := plan.commands(), start=1):
        click.secho(f"\n[{number}/{len(commands)}] robomem {shlex.join(command)}", bold=True)
        _run(command)
    _show(plan)


def _run(command: Sequence[str]) -> None:
    """Run one command in a process of its own, as a shell would: what renders must not meet what trains."""
    status = subprocess.run([sys.executable, "-m", "robomem", *command], check=False).returncode
    if status:
        raise RobomemError(f"`robomem {command[0]}` failed (see above); `robomem quickstart` continues from here")


def _experiment(env_id: str) -> str:
    """`RememberColor3-VLA-v0` -> `remember_color`, the experiment that serves a family of tasks."""
    families = {"RememberColor": "remember_color"}
    for prefix, experiment in families.items():
        if env_id.startswith(prefix):
            return experiment
    raise RobomemError(f"there is no experiment for {env_id} yet; the quickstart knows {', '.join(families)}* tasks")


def _show(plan: Plan) -> None:
    """The results side by side, and where the report is."""
    from rich.console import Console
    from rich.table import Table

    table = Table(title=f"{plan.env_id}, {plan.episodes} episodes, 95 % Wilson intervals")
    for heading in ("policy", "success", "first choice right", "success at the end"):
        table.add_column(heading)
    for name in (MEMORY, CONTROL, *BASELINES):
        summary = json.loads((plan.records(name) / "summary.json").read_text())
        table.add_row(name, *(_cell(summary[key]) for key in ("success_once", "first_choice", "success_at_end")))
    audit = json.loads((plan.run(MEMORY) / "audit" / plan.env_id / "audit.json").read_text())
    console = Console()
    console.print(table)
    console.print(f"audit: {MEMORY} {audit['verdict']}")
    console.print(f"report: {(plan.folder / 'report.html').resolve()}")


def _cell(value: dict[str, Any] | None) -> str:
    """Rate, interval and counts: a choice is counted only where one was made."""
    if not value:
        return "-"
    return f"{value['rate']:.2f} [{value['low']:.2f}, {value['high']:.2f}]\n{value['count']} of {value['episodes']}"
