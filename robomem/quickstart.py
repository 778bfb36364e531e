"""`robomem quickstart`: the whole way on one task, as the commands that a user would type."""

import json
import re
import shlex
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

from robomem.errors import RobomemError
from robomem.files import disk_guard, read_json, write_json
from robomem.groups import options

MEMORY, CONTROL, BASELINES = "memory_vla", "memoryless", ("oracle", "sweep")
"""The policy unless others are asked for, the one beside it, and what needs no training."""
FEWEST = 12
"""Demonstrations: training sees as many side by side."""


@dataclass(frozen=True)
class Plan:
    """Folders and sizes of a quickstart."""

    env_id: str
    folder: Path
    demonstrations: int
    episodes: int
    steps: int
    policies: tuple[str, ...] = (MEMORY,)

    @property
    def trained(self) -> tuple[str, ...]:
        """The policies and their control."""
        return (*self.policies, CONTROL)

    @property
    def dataset(self) -> Path:
        """Of the demonstrations."""
        return self.folder / "data" / self.env_id

    @property
    def report(self) -> Path:
        """The page about all of it."""
        return self.folder / "report.html"

    def run(self, policy: str) -> Path:
        """Folder of a training run."""
        return self.folder / policy

    def records(self, name: str) -> Path:
        """Folder of the evaluation of a policy or a baseline."""
        if name in BASELINES:
            return self.folder / f"baseline-{name}"
        return self.run(name) / "eval" / self.env_id

    def record(self) -> None:
        """Write down the sizes.

        Raises:
            RobomemError: a quickstart of other sizes lies in the folder.
        """
        sizes = {name: getattr(self, name) for name in ("env_id", "demonstrations", "episodes", "steps")}
        path = self.folder / "quickstart.json"
        if path.exists() and (found := read_json(path)) != sizes:
            raise RobomemError(
                f"{path} is of a quickstart of other sizes: {found}; repeat these or give another --output"
            )
        with disk_guard(self.folder, "the quickstart was not started"):
            write_json(path, sizes)

    def commands(self) -> list[list[str]]:
        """The command lines, in order; each continues what an earlier attempt left."""
        task, lite, exact = _set("sim.env_id", self.env_id), "sim.render=lite", "sim.render=exact"
        data, episodes = _set("data.root", self.dataset), f"episodes={self.episodes}"
        experiment = f"experiment={_experiment(self.env_id)}"
        runs = {name: self.run(name) for name in self.trained}
        steps = dict.fromkeys(self.policies, self.steps) | {CONTROL: -(-self.steps // 2)}
        number = f"episodes={self.demonstrations}"
        return [
            ["collect", _set("root", self.dataset), number, "demonstration.noise=0.6", task, lite],
            *(
                ["train", experiment, f"policy={name}", data, _set("run_dir", run), f"max_steps={steps[name]}"]
                for name, run in runs.items()
            ),
            *(["eval", _set("checkpoint", run), episodes, "replan_every=2", task, exact] for run in runs.values()),
            *(
                ["eval", f"baseline={name}", episodes, _set("output_dir", self.records(name)), task]
                for name in BASELINES
            ),
            *(
                ["audit", _set("checkpoint", runs[name]), _set("dataset", self.dataset), "replan_every=2", task, lite]
                for name in self.policies
            ),
            ["report", *map(str, (*runs.values(), *map(self.records, BASELINES))), f"--output={self.report}"],
        ]


@click.command(name="quickstart")
@click.option("--env-id", default="RememberColor3-VLA-v0", show_default=True, help="Task of MIKASA-Robo-VLA.")
@click.option("--output", default="outputs/quickstart", show_default=True, type=click.Path(path_type=Path))
@click.option(
    "--demonstrations",
    default=320,
    show_default=True,
    type=click.IntRange(FEWEST),
    help="Oracle trajectories to collect.",
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
    help="Training steps of a policy; the control takes half.",
)
@click.option(
    "--policy",
    "policies",
    default=[MEMORY],
    show_default=True,
    multiple=True,
    type=click.Choice([name for name in options("policy") if name != CONTROL]),
    help="Repeatable, to compare several on the same data and budget.",
)
def main(env_id: str, output: Path, demonstrations: int, episodes: int, steps: int, policies: tuple[str, ...]) -> None:
    """Collect demonstrations, train memory policies and their memoryless control, evaluate, audit and report.

    Every step is a `robomem` command, shown before it runs; an interrupted quickstart goes on where it stopped.
    """
    plan = Plan(env_id, output, demonstrations, episodes, steps, tuple(dict.fromkeys(policies)))
    plan.record()
    for number, command in enumerate(commands := plan.commands(), start=1):
        click.secho(f"\n[{number}/{len(commands)}] robomem {shlex.join(command)}", bold=True)
        _run(command)
    _show(plan)


def _run(command: Sequence[str]) -> None:
    """Run one command in a process of its own, as a shell would: what renders must not meet what trains."""
    # -P: a folder named robomem where the user stands is not the package.
    status = subprocess.run([sys.executable, "-P", "-m", "robomem", *command], check=False).returncode
    if status:
        raise RobomemError(f"`robomem {command[0]}` failed (see above); `robomem quickstart` continues from here")


def _set(key: str, value: object) -> str:
    """An override whose value Hydra takes as it is, whatever characters it has."""
    text = str(value)
    plain = re.fullmatch(r"[\w./-]+", text, re.ASCII)
    return f"{key}={text}" if plain else f"{key}='{text.replace("'", r'\'')}'"


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
    for name in (*plan.trained, *BASELINES):
        summary = json.loads((plan.records(name) / "summary.json").read_text())
        table.add_row(name, *(_cell(summary[key]) for key in ("success_once", "first_choice", "success_at_end")))
    console = Console()
    console.print(table)
    for name in plan.policies:
        audit = json.loads((plan.run(name) / "audit" / plan.env_id / "audit.json").read_text())
        console.print(f"audit: {name} {audit['verdict']}")
    console.print(f"report: {plan.report.resolve()}")


def _cell(value: dict[str, Any] | None) -> str:
    """Rate, interval and counts: a choice is counted only where one was made."""
    if not value:
        return "-"
    return f"{value['rate']:.2f} [{value['low']:.2f}, {value['high']:.2f}]\n{value['count']} of {value['episodes']}"
