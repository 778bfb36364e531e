"""The command line: help without work, errors as one line, clean interruption."""

import errno
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from robomem import __version__, cli
from robomem.errors import SpecMismatch, nearest
from robomem.hydra_cli import HydraCommand

PROGRAM = """
import time
from dataclasses import dataclass, field

import hydra
from hydra.core.config_store import ConfigStore
from omegaconf import MISSING, OmegaConf

from robomem.errors import RobomemError


@dataclass
class Trainer:
    steps: int = 10
    rate: float = 0.1


@dataclass
class Config:
    trainer: Trainer = field(default_factory=Trainer)
    memory: dict = field(default_factory=dict)
    data: str = MISSING


ConfigStore.instance().store("schema", Config)


@hydra.main(version_base="1.3", config_path="CONFIGS", config_name="program")
def main(config):
    config = OmegaConf.to_object(config)
    if config.data == "mistake":
        raise RobomemError("the data are wrong;\\n  record them anew")
    if config.data == "defect":
        raise ValueError("a defect")
    if config.data == "wait":
        print("waiting", flush=True)
        time.sleep(60)
    print("steps", config.trainer.steps, config.memory["kind"])
"""
FILES = {
    "program.yaml": "defaults: [schema, {memory: gru}, _self_, {experiment: null}]\ntrainer: {steps: 20}\n"
    "hydra: {run: {dir: RUN}, output_subdir: null}\n",
    "memory/gru.yaml": "kind: gru\n",
    "memory/none.yaml": "kind: none\n",
    "experiment/misspelt.yaml": "# @package _global_\ntrainer: {stepz: 1}\n",
    "experiment/stray.yaml": "# @package _global_\ndefaults: [{override /memry: gru}]\n",
}


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A Hydra program with a schema, groups and experiments; its module name."""
    folder = tmp_path_factory.mktemp("program")
    for name, text in FILES.items():
        path = folder / "values" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text.replace("RUN", str(folder / "run")))
    (folder / "hydra_program_of_test_cli.py").write_text(PROGRAM.replace("CONFIGS", str(folder / "values")))
    sys.path.insert(0, str(folder))
    return "hydra_program_of_test_cli"


@pytest.fixture
def command(program: str, monkeypatch: pytest.MonkeyPatch) -> str:
    """The name of a subcommand that runs the program."""
    monkeypatch.delenv("ROBOMEM_DEBUG", raising=False)
    monkeypatch.setitem(cli.COMMANDS, "program", cli.Entry(program, "A program.", config="train"))
    return "program"


def test_hydra_program_receives_overrides(command: str, capfd: pytest.CaptureFixture[str]) -> None:
    assert cli.run([command, "trainer.steps=3", "data=x", "memory=none"]) == 0
    assert "steps 3 none" in capfd.readouterr().out


def test_hydra_flags_pass_through(command: str, capfd: pytest.CaptureFixture[str]) -> None:
    assert cli.run([command, "--cfg", "job", "-p", "trainer"]) == 0
    assert "steps: 20" in capfd.readouterr().out


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("trainer.stepz=1", "unknown configuration key 'trainer.stepz'; did you mean 'steps'?"),
        ("trainr.steps=1", "unknown configuration key 'trainr'; did you mean 'trainer'?"),
        ("memry=gru", "unknown configuration key 'memry'; did you mean 'memory'?"),
        ("experiment=misspelt", "unknown configuration key 'trainer.stepz'; did you mean 'steps'?"),
        ("memory=gruu", "memory has no option 'gruu'; did you mean 'gru'?"),
        ("experiment=miss", "experiment has no option 'miss'; did you mean 'misspelt'?"),
        ("trainer.steps=many", "trainer.steps: Value 'many' of type 'str' could not be converted to Integer"),
        ("trainer.steps=[1", "no viable alternative at input '[1'"),
        ("trainer.steps=1", "data has no value; set it with data=VALUE"),
        ("data=mistake", "the data are wrong; record them anew"),
    ],
)
def test_mistake_is_one_line(override: str, message: str, command: str, capfd: pytest.CaptureFixture[str]) -> None:
    assert cli.run([command, override]) == 1
    assert capfd.readouterr().err == f"error: {message}\n"


def test_unknown_group_in_an_experiment_is_one_line(command: str, capfd: pytest.CaptureFixture[str]) -> None:
    assert cli.run([command, "experiment=stray"]) == 1
    assert re.fullmatch(r"error: unknown configuration group 'memry'.*\n", capfd.readouterr().err)


def test_defect_keeps_its_traceback(command: str) -> None:
    with pytest.raises(ValueError, match="a defect"):
        cli.run([command, "data=defect"])


@pytest.mark.parametrize("arguments", [["--debug"], []], ids=["flag", "variable"])
def test_debug_shows_the_traceback(arguments: list[str], command: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ROBOMEM_DEBUG", "" if arguments else "1")
    with pytest.raises(Exception, match="the data are wrong"):
        cli.run([*arguments, command, "data=mistake"])


def test_interruption_is_clean(program: str) -> None:
    code = f"from robomem import cli; cli.COMMANDS['p'] = cli.Entry({program!r}, '', config='train'); cli.main()"
    child = subprocess.Popen(
        [sys.executable, "-c", code, "p", "data=wait"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # a job in the background ignores it
    )
    assert child.stdout is not None
    assert child.stdout.readline() == "waiting\n"
    time.sleep(0.2)
    child.send_signal(signal.SIGINT)
    _, err = child.communicate(timeout=60)
    assert (child.returncode, err.strip()) == (cli.INTERRUPTED, "interrupted")


def test_unknown_command_suggests_the_nearest(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.run(["trian"]) == 2
    assert capsys.readouterr().err == "error: no command 'trian'; did you mean 'train'?\n"


def test_version_and_help(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.run(["--version"]) == 0
    assert __version__ in capsys.readouterr().out
    assert cli.run(["--help"]) == 0
    text = capsys.readouterr().out
    assert all(f"  {name} " in text for name in cli.COMMANDS)


def test_full_disk_and_missing_package_are_user_errors() -> None:
    full = OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), "/data/shard.mp4")
    assert "/data/shard.mp4" in (cli.describe(full) or "")
    assert "'mani_skill'" in (cli.describe(ModuleNotFoundError(name="mani_skill.envs")) or "")
    assert cli.describe(ModuleNotFoundError(name="robomem.nothing")) is None
    assert cli.describe(SpecMismatch("two sides")) == "two sides"
    assert cli.describe(OSError(errno.EIO, "broken")) is None


@pytest.mark.parametrize("name", [name for name, entry in cli.COMMANDS.items() if entry.config])
def test_help_of_hydra_commands_lists_groups_and_settings(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    config = Path(__file__).parents[1] / f"configs/{cli.COMMANDS[name].config}.yaml"
    assert cli.run([name, "--help"]) == 0
    text = capsys.readouterr().out
    for line in config.read_text().splitlines():
        if key := re.match(r"([a-z_]+):", line):
            assert key[1] in ("defaults", "hydra") or key[1] in text


def test_help_of_a_hydra_command_does_not_import_its_module() -> None:
    command = HydraCommand("train", "robomem.no_such_module", "train", "Train.")
    assert command.main(["--help"], prog_name="train", standalone_mode=False) == 0


def test_nearest() -> None:
    assert nearest("gruu", ["gru", "none"]) == "; did you mean 'gru'?"
    assert nearest("xyz", ["gru", "none"]) == "; there are: gru, none"
    assert nearest("xyz", []) == ""
