"""Every command that the quickstart runs is one that its program accepts."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hydra import compose, initialize_config_module

from robomem import cli, quickstart
from robomem.config import SCHEMAS, register_schemas, to_dataclass
from robomem.errors import RobomemError
from robomem.quickstart import BASELINES, CONTROL, MEMORY, Plan
from robomem.report.cli import main as report


@pytest.fixture
def plan(tmp_path: Path) -> Plan:
    return Plan("RememberColor3-VLA-v0", tmp_path / "quick start", demonstrations=12, episodes=3, steps=9)


def composed(command: list[str]) -> Any:
    """The configuration of a Hydra command."""
    register_schemas()
    with initialize_config_module("robomem.configs", version_base="1.3"):
        return to_dataclass(compose(command[0], command[1:]), SCHEMAS[command[0]])


def test_every_hydra_command_composes(plan: Plan) -> None:
    commands = [command for command in plan.commands() if cli.COMMANDS[command[0]].config]
    assert [c[0] for c in commands] == ["collect", "train", "train", "eval", "eval", "eval", "eval", "audit"]
    collect, memory, control, *evaluations, audit = map(composed, commands)
    assert (collect.root, collect.episodes, collect.sim.render) == (str(plan.dataset), 12, "lite")
    for training, name, steps in ((memory, MEMORY, 9), (control, CONTROL, 5)):
        assert (training.policy["name"], training.run_dir) == (name, str(plan.run(name)))
        assert (training.data.root, training.max_steps) == (collect.root, steps)
    assert [e.checkpoint for e in evaluations] == [memory.run_dir, control.run_dir, None, None]
    assert [e.baseline for e in evaluations] == [None, None, *BASELINES]
    assert all((e.episodes, e.sim.env_id) == (3, plan.env_id) for e in evaluations)
    assert (audit.checkpoint, audit.dataset) == (memory.run_dir, collect.root)


def test_policies_differ_in_their_memory_alone(plan: Plan) -> None:
    memory, control = (composed(command).policy for command in plan.commands() if command[0] == "train")
    assert {key for key in memory if memory[key] != control[key]} == {"name", "memory"}


def test_several_policies_are_treated_alike(plan: Plan) -> None:
    names = ("elmur", MEMORY)
    several = replace(plan, policies=names)
    trainings = [composed(command) for command in several.commands() if command[0] == "train"]
    assert [(t.policy["name"], t.max_steps) for t in trainings] == [("elmur", 9), (MEMORY, 9), (CONTROL, 5)]
    assert len({t.run_dir for t in trainings}) == 3
    audits = [composed(command) for command in several.commands() if command[0] == "audit"]
    assert [audit.checkpoint for audit in audits] == [str(plan.run(name)) for name in names]
    assert several.commands()[-1][1:4] == [t.run_dir for t in trainings]


def test_the_report_takes_what_the_others_make(plan: Plan) -> None:
    command = plan.commands()[-1]
    assert command[0] == "report"
    parsed = report.make_context("report", command[1:]).params
    assert [str(path) for path in parsed["runs"]] == [
        str(path) for path in (plan.run(MEMORY), plan.run(CONTROL), *map(plan.records, BASELINES))
    ]
    assert str(parsed["output"]) == str(plan.folder / "report.html")


@pytest.mark.parametrize("name", ["Café x", "a,b", "it's", "{a}=[b]", "plain-1.0_x"])
def test_any_folder_is_taken_as_it_is(plan: Plan, tmp_path: Path, name: str) -> None:
    odd = replace(plan, folder=tmp_path / name)
    collect, training, evaluation = (composed(odd.commands()[number]) for number in (0, 1, 3))
    assert (collect.root, training.data.root) == (str(odd.dataset),) * 2
    assert training.run_dir == evaluation.checkpoint == str(odd.run(MEMORY))


def test_other_sizes_in_the_same_folder_are_refused(plan: Plan) -> None:
    plan.record()
    replace(plan, policies=("elmur",)).record()
    with pytest.raises(RobomemError, match=r"quickstart of other sizes: .*'demonstrations': 12.*another --output"):
        replace(plan, demonstrations=320).record()


def test_a_folder_named_like_the_package_is_not_mistaken_for_it(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "robomem").mkdir()
    monkeypatch.chdir(tmp_path)
    quickstart._run(["--version"])


def test_a_failing_step_stops_it(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    with pytest.raises(RobomemError, match="`robomem trian` failed"):
        quickstart._run(["trian"])
    with pytest.raises(RobomemError, match=r"no experiment for PickCube-v1 yet; the quickstart knows RememberColor\*"):
        Plan("PickCube-v1", tmp_path, 1, 1, 1).commands()


def test_the_results_are_shown_side_by_side(plan: Plan, capsys: pytest.CaptureFixture[str]) -> None:
    cell = {"count": 2, "episodes": 4, "rate": 0.5, "low": 0.25, "high": 0.75}
    for name in (MEMORY, CONTROL, *BASELINES):
        plan.records(name).mkdir(parents=True)
        summary = {"success_once": cell, "first_choice": None, "success_at_end": cell}
        (plan.records(name) / "summary.json").write_text(json.dumps(summary))
    audit = plan.run(MEMORY) / "audit" / plan.env_id
    audit.mkdir(parents=True)
    (audit / "audit.json").write_text('{"verdict": "uses its memory"}')
    quickstart._show(plan)
    shown = capsys.readouterr().out
    assert shown.count("0.50 [0.25, 0.75]") == shown.count("2 of 4") == 8
    assert "uses its memory" in shown
