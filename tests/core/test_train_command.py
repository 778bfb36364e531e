"""`robomem train` from the command line, with the product's own policies too."""

import shutil
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest
from tiny import build_tiny, write_tiny_dataset

from robomem import checkpoint, cli
from robomem import train as train_module
from robomem.train import swapped_name, train

TESTS = Path(__file__).parents[1]
CONFIGS = TESTS.parent / "configs"


@pytest.fixture(scope="module")
def dataset(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_tiny_dataset(tmp_path_factory.mktemp("data") / "tiny")


@pytest.fixture
def command(
    dataset: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Callable[..., tuple[int, str]]:
    """Runs `robomem train` with the tiny policy; returns the exit status and what it said."""
    monkeypatch.delenv("ROBOMEM_DEBUG", raising=False)
    monkeypatch.setenv("ROBOMEM_OUTPUTS", str(tmp_path))
    monkeypatch.setattr(train_module, "train", partial(train, build=build_tiny))

    def robomem_train(*overrides: str) -> tuple[int, str]:
        search = f"hydra.searchpath=[file://{TESTS}/configs]"
        given = (
            ["policy=tiny", f"data.root={dataset}", "debug=default"] if not overrides[0].startswith("resume") else []
        )
        status = cli.run(["train", search, *given, *overrides])
        said = capsys.readouterr()
        return status, said.out + said.err

    return robomem_train


@pytest.mark.parametrize(
    ("overrides", "name"),
    [
        ([], "memory_vla"),
        (["memory=gru", "optim.lr=1"], "memory_vla-gru"),
        (["head=diffusion", "trunk=mlp", "memory=none"], "memory_vla-none-diffusion-mlp"),
        (["memory=gru", "policy.name=mine"], "memory_vla"),
    ],
)
def test_swapped_parts_are_in_the_name(overrides: list[str], name: str) -> None:
    assert swapped_name("memory_vla", overrides) == name


def test_command_line_trains_and_resumes(command: Callable[..., tuple[int, str]], tmp_path: Path) -> None:
    status, said = command("seed=5")
    assert (status, "finished after 4 steps" in said) == (0, True)
    status, said = command("seed=5")
    assert (status, "is finished" in said) == (0, True)
    run_dir = tmp_path / "debug/tiny"
    assert "seed=5" in (run_dir / "overrides.yaml").read_text()
    status, said = command("seed=6")
    assert (status, "seed: there 5, now 6" in said) == (1, True)
    status, said = command(f"resume={run_dir}", "max_steps=6", "policy=tiny")
    assert (status, "keeps that run's policy" in said) == (1, True)
    status, said = command(f"resume={run_dir}", "max_steps=6", "tracker.every=3")
    assert (status, "going on from" in said) == (0, True)
    assert checkpoint.steps_of(checkpoint.resolve(run_dir)) == 6
    status, said = command(f"resume={tmp_path}/none")
    assert (status, "is no run of `robomem train`" in said) == (1, True)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["debug"]


def test_sweep_gives_each_run_its_folder(command: Callable[..., tuple[int, str]], tmp_path: Path) -> None:
    status, _ = command("seed=1,2", "-m")
    assert status == 0
    runs = {path.parent for path in tmp_path.rglob("config.yaml") if "checkpoints" not in path.parts}
    assert {path.name.split("seed=")[1] for path in runs} == {"1", "2"}
    assert all(checkpoint.list_checkpoints(path) for path in runs)


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("optim.lrr=1", "unknown configuration key 'optim.lrr'; did you mean 'lr'?"),
        ("max_steps=null", "set max_steps or max_minutes"),
        ("data.root=/nowhere", "/nowhere"),
        ("data.batch_size=100", "lower data.batch_size"),
    ],
)
def test_mistake_is_one_line(override: str, message: str, command: Callable[..., tuple[int, str]]) -> None:
    status, said = command(override)
    assert status == 1
    assert message in said.splitlines()[-1]
    assert said.splitlines()[-1].startswith("error: ")


@pytest.mark.parametrize("memory", sorted(path.stem for path in (CONFIGS / "memory").glob("*.yaml")))
def test_every_memory_trains_and_resumes_bit_for_bit(
    memory: str, dataset: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ROBOMEM_OUTPUTS", str(tmp_path))
    command = ["train", "debug=default", f"memory={memory}", f"data.root={dataset}", "policy.horizon=3"]
    assert cli.run(command) == 0
    first, last = checkpoint.list_checkpoints(tmp_path / f"debug/memory_vla-{memory}")
    before = {name: (last / name).read_bytes() for name in (checkpoint.WEIGHTS, "training/optimizer.safetensors")}
    shutil.rmtree(last)
    assert cli.run(command) == 0
    assert first.exists()
    assert {name: (last / name).read_bytes() for name in before} == before
