"""What a user can run into, from the command line: one line that names the cause and the fix."""

import shutil
import subprocess
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from report_runs import write_training
from tiny import EMBODIMENT, tiny_episode, write_tiny_dataset
from untrained import untrained

from robomem import cli
from robomem.datasets import lerobot_format as form
from robomem.datasets.lerobot_writer import EpisodeWriter
from robomem.errors import RobomemError
from robomem.sim.embodiment import MIKASA
from robomem.spec import EmbodimentSpec
from robomem.tensors import load_tensors, save_tensors
from robomem.video import VideoRecorder

SIMULATION = ("sim.render=lite", "sim.workers=1", "episodes=1")
FEWER_CAMERAS = replace(EMBODIMENT, cameras=EMBODIMENT.cameras[:1])
TRAINING = ("policy=memoryless", "policy.horizon=3", "debug=default")

Failing = Callable[..., str]


@pytest.fixture
def failing(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> Callable[..., str]:
    """Runs a command that must fail; returns the line that it says."""
    monkeypatch.delenv("ROBOMEM_DEBUG", raising=False)
    monkeypatch.setenv("ROBOMEM_OUTPUTS", str(tmp_path / "outputs"))

    def run(*arguments: object) -> str:
        assert cli.run([str(argument) for argument in arguments]) == 1
        *_, line = capfd.readouterr().err.splitlines()
        assert line.startswith("error: ")
        return line

    return run


@pytest.fixture
def dataset(tmp_path: Path) -> Path:
    return write_tiny_dataset(tmp_path / "data")


def write_one_camera(root: Path) -> Path:
    """A dataset of the same robot with one camera less."""
    with EpisodeWriter(root, FEWER_CAMERAS) as writer:
        for seed in range(4):
            writer.save(replace(tiny_episode(seed), images={"base": tiny_episode(seed).images["base"]}))
    return root


@pytest.mark.parametrize(
    ("command", "key", "meant"),
    [
        ("train", "max_step", "max_steps"),
        ("train", "optim.lrr", "lr"),
        ("train", "data.augmentation.kep", "keep"),
        ("train", "policy.memory.entris", "entries"),
        ("train", "+data.augmentation.kep", "keep"),
        ("eval", "checkpont", "checkpoint"),
        ("eval", "sim.rendr", "render"),
        ("collect", "episods", "episodes"),
        ("collect", "demonstration.nois", "noise"),
        ("audit", "datset", "dataset"),
        ("audit", "sim.wrkers", "workers"),
    ],
)
def test_misspelt_key(failing: Failing, command: str, key: str, meant: str) -> None:
    said = failing(command, f"{key}=1", *(["max_steps=1"] if command == "train" else []))
    assert said == f"error: unknown configuration key {key.lstrip('+')!r}; did you mean {meant!r}?"


@pytest.mark.parametrize(
    ("command", "setting", "told"),
    [
        ("train", "seed=-1", "seed=-1 is not from 0"),
        ("train", "seed=99999999999999999999999", "is not from 0"),
        ("train", "data.cache_gib=nan", "data.cache_gib=nan must be finite"),
        ("train", "data.cache_gib=inf", "data.cache_gib=inf must be finite"),
        ("train", "data.root=", "data.root names no folder"),
        ("train", "optim.lr=inf", "optim.lr=inf must be positive and finite"),
        ("train", "optim.weight_decay=inf", "optim.weight_decay=inf must be finite"),
        ("train", "policy.name=", "policy.name='' must be letters"),
        ("train", "policy.name=a/b", "policy.name='a/b' must be letters"),
        ("train", "policy.memory.entries=-3", "entries=-3 must be a whole number from 1 up"),
        ("train", "device=mps", "device=mps cannot be used here"),
        ("train", "run_dir=/proc/x", "cannot write /proc/x"),
        ("collect", "max_seeds=-3", "max_seeds=-3 must be positive"),
        ("collect", "demonstration.noise=-1", "demonstration.noise=-1.0 must be finite"),
        ("collect", "demonstration.hold_steps=-1", "demonstration.hold_steps=-1 must be"),
        ("collect", "sim.workers=-1", "sim.workers=-1 must not be negative"),
        ("eval", "videos=-1", "videos=-1 must not be negative"),
        ("eval", "replan_every=0", "replan_every=0 must be at least 1"),
        ("audit", "replan_every=0", "replan_every=0 must be at least 1"),
    ],
)
def test_value_out_of_range(failing: Failing, dataset: Path, command: str, setting: str, told: str) -> None:
    needed = {
        "train": ("policy=memory_vla", f"data.root={dataset}", "debug=default", "data.augmentation.shift=0"),
        "collect": (f"root={dataset}",),
        "eval": ("baseline=oracle",),
        "audit": ("checkpoint=x", f"dataset={dataset}"),
    }
    said = failing(command, *needed[command], setting)
    assert told in said
    assert len(said) < 400


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["train", "--foo"], "error: no flag --foo; "),
        (["train", "=3"], "error: '=3' names no setting; write KEY=VALUE"),
        (["train", "+=3"], "error: '+=3' names no setting; write KEY=VALUE"),
    ],
)
def test_flag_that_does_not_exist(capfd: pytest.CaptureFixture[str], arguments: list[str], told: str) -> None:
    assert cli.run(arguments) == 2
    said = capfd.readouterr().err
    assert said.startswith(told)
    assert said.count("\n") == 1


@pytest.mark.parametrize("content", ["[]", "{}", "3"])
@pytest.mark.parametrize("name", [form.INFO, form.ROBOMEM])
def test_other_content_in_a_dataset(failing: Failing, dataset: Path, name: str, content: str) -> None:
    (dataset / name).write_text(content)
    said = failing("train", *TRAINING, f"data.root={dataset}")
    assert f"{dataset / name} is damaged (it has no " in said


@pytest.mark.parametrize("content", ["[]", "{}"])
def test_other_content_in_a_checkpoint(failing: Failing, tmp_path: Path, content: str) -> None:
    checkpoint = untrained(EMBODIMENT, "policy=memoryless").save(tmp_path / "run")
    (path,) = checkpoint.rglob("config.json")
    path.write_text(content)
    said = failing("eval", f"checkpoint={checkpoint}", *SIMULATION)
    assert f"{path} is not what this version writes" in said


def test_minutes_without_end(failing: Failing) -> None:
    assert "--minutes nan is no end" in failing("probe", "--probe", "recall", "--minutes", "nan")


def test_setting_with_dashes(capfd: pytest.CaptureFixture[str]) -> None:
    assert cli.run(["eval", "--checkpoint", "outputs/run"]) == 2
    assert capfd.readouterr().err == "error: settings have no dashes: checkpoint=VALUE in place of --checkpoint\n"


def test_a_run_goes_on_with_other_cameras(failing: Failing, dataset: Path, tmp_path: Path) -> None:
    command = ("train", *TRAINING, f"data.root={dataset}", f"run_dir={tmp_path / 'run'}")
    assert cli.run(command) == 0
    shutil.rmtree(dataset)
    write_one_camera(dataset)
    said = failing(*command, "max_steps=6")
    assert "cameras: the run" in said
    assert said.endswith("restore the dataset, or start another run with name=...")


def test_an_audit_on_other_cameras(failing: Failing, tmp_path: Path) -> None:
    run_dir = untrained(EMBODIMENT, "policy=memoryless").save(tmp_path / "run")
    said = failing("audit", f"checkpoint={run_dir}", f"dataset={write_one_camera(tmp_path / 'data')}", "recorded=8")
    assert "cameras: the checkpoint has ['base', 'hand'], the dataset" in said
    assert said.endswith("give the dataset it was trained on, or another of the same robot")


@pytest.mark.parametrize(
    ("robot", "told"),
    [
        (replace(MIKASA, cameras=MIKASA.cameras[:1]), "cameras: the checkpoint has ['top'], the environment has"),
        (replace(MIKASA, action=EMBODIMENT.action), "action.names: the checkpoint has ('a0', 'a1'), the environment"),
    ],
    ids=["cameras", "actions"],
)
def test_an_evaluation_of_another_robot(failing: Failing, robot: EmbodimentSpec, told: str, tmp_path: Path) -> None:
    run_dir = untrained(robot, "policy=memoryless").save(tmp_path / "run")
    said = failing("eval", f"checkpoint={run_dir}", *SIMULATION)
    assert told in said
    assert said.count(": the checkpoint has") == 1
    assert said.endswith("choose the environment that its data was recorded in, or train on data of this one")


def test_a_recording_with_another_robot(failing: Failing, dataset: Path) -> None:
    said = failing("collect", f"root={dataset}", *SIMULATION)
    assert "cameras: the dataset" in said
    assert said.endswith("give another folder, or record with the robot of this one")


@pytest.mark.parametrize("command", ["eval", "audit"])
def test_nan_in_the_weights(failing: Failing, command: str, dataset: Path, tmp_path: Path) -> None:
    run_dir = untrained(EMBODIMENT, "policy=memoryless").save(tmp_path / "run")
    (weights,) = run_dir.rglob("model.safetensors")
    tensors = load_tensors(weights)
    name = next(name for name in tensors if name.startswith("head."))
    tensors[name].view(-1)[0] = float("nan")
    save_tensors(weights, tensors)
    said = failing(command, f"checkpoint={run_dir}", *([f"dataset={dataset}"] if command == "audit" else []))
    assert said == f"error: {weights}: {name} holds a NaN or an infinity; use an earlier checkpoint, or train anew"


def test_nan_in_the_data(failing: Failing, dataset: Path) -> None:
    (path,) = form.parquet_files(dataset / form.DATA)
    with pq.ParquetFile(path) as parquet:
        tables = [parquet.read_row_group(group) for group in range(parquet.num_row_groups)]
    actions = np.array(tables[1]["action"].to_pylist(), np.float32)
    actions[3, 1] = np.nan
    column = tables[1].schema.get_field_index("action")
    broken = pa.FixedSizeListArray.from_arrays(pa.array(actions.reshape(-1)), actions.shape[1])
    tables[1] = tables[1].set_column(column, tables[1].schema.field(column), broken)
    with form.data_writer(path, tables[0].schema) as writer:
        for table in tables:
            writer.write_table(table, row_group_size=len(table))
    said = failing("train", *TRAINING, f"data.root={dataset}")
    assert f"{path} is damaged (actions of the episode with seed 1 is not finite at tick 3)" in said
    assert said.endswith("restore it from a copy or collect the dataset anew")


def test_no_vulkan_driver(failing: Failing, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("VK_DRIVER_FILES", "VK_ICD_FILENAMES"):
        monkeypatch.setenv(name, str(tmp_path / "none.json"))
    said = failing("collect", f"root={tmp_path / 'data'}", *SIMULATION)
    assert "no Vulkan driver found" in said
    assert "`make system` installs Mesa's software driver" in said
    assert not (tmp_path / "data").exists()


@pytest.mark.parametrize(
    "command", [["eval", "baseline=oracle", "output_dir=FILE/e"], ["report", "RUN", "-o", "FILE/r"]]
)
def test_a_file_in_place_of_a_folder(failing: Failing, command: list[str], tmp_path: Path) -> None:
    write_training(tmp_path / "run", "bank", steps=40)
    (tmp_path / "file").touch()
    said = failing(*(word.replace("FILE", f"{tmp_path}/file").replace("RUN", f"{tmp_path}/run") for word in command))
    assert said.endswith("give another folder or permission to write there")


@pytest.fixture
def full_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system without room."""
    disk = tmp_path / "disk"
    disk.mkdir()
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64k", "none", disk], capture_output=True).returncode:
        pytest.skip("mounting a tmpfs needs root")
    (disk / "filler").write_bytes(bytes(2**16))
    yield disk
    subprocess.run(["umount", "--lazy", disk], check=True)


def test_full_disk_while_filming(full_disk: Path) -> None:
    recorder = VideoRecorder(full_disk / "videos", {1}, fps=20)
    frames = np.random.default_rng(0).integers(0, 255, (30, 64, 64, 3), np.uint8)

    def film() -> None:
        for tick, frame in enumerate(frames):
            recorder.frame(1, tick, {"top": frame}, success=False)

    with pytest.raises(RobomemError, match="the video of seed 1 was not saved; all that was saved before is intact"):
        film()
    assert not list((full_disk / "videos").iterdir())


@pytest.mark.parametrize(
    ("command", "unsaved"),
    [
        (["collect", "root=DISK/data", *SIMULATION], "the dataset was not opened"),
        (["train", *TRAINING, "data.root=DATASET", "run_dir=DISK/run"], "the run was not started"),
        (["eval", "baseline=oracle", "output_dir=DISK/eval"], "config.json was not saved"),
        (["report", "RUN", "--output", "DISK/report.html"], "the report was not saved"),
    ],
    ids=["collect", "train", "eval", "report"],
)
def test_full_disk(
    failing: Failing, full_disk: Path, dataset: Path, command: Sequence[str], unsaved: str, tmp_path: Path
) -> None:
    write_training(tmp_path / "run", "bank", steps=40)
    places = {"DISK": full_disk, "DATASET": dataset, "RUN": tmp_path / "run"}
    for name, path in places.items():
        command = [word.replace(name, str(path)) for word in command]
    said = failing(*command)
    assert f"(No space left on device): {unsaved}; all that was saved before is intact. Free some space" in said
