"""Checkpoints: whole or absent, loaded as they were saved, and refused where their parts do not belong together."""

import json
import resource
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from tiny import CONFIG, EMBODIMENT, STATISTICS, TinyPolicy, build_tiny, tiny_spec, vector

from robomem import checkpoint
from robomem.contract import Policy
from robomem.errors import RobomemError, SpecMismatch
from robomem.spec import CameraSpec, EmbodimentSpec
from robomem.tensors import load_tensors, save_tensors


@pytest.fixture
def policy() -> TinyPolicy:
    torch.manual_seed(0)
    return build_tiny(CONFIG, tiny_spec(), STATISTICS)


@pytest.fixture
def saved(policy: TinyPolicy, tmp_path: Path) -> Path:
    checkpoint.save(tmp_path / "saved", policy, CONFIG, policy.spec, STATISTICS)
    return tmp_path / "saved"


@contextmanager
def small_files(size: int) -> Iterator[None]:
    """Limits the size of files, as a disk that is nearly full does; as short as possible: pytest writes files too."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def load(path: Path) -> Policy:
    return checkpoint.load(path, build=build_tiny)


def change_json(path: Path, **changes: Any) -> None:
    path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))


def test_loaded_policy_is_the_saved_one(saved: Path, policy: TinyPolicy) -> None:
    loaded = load(saved)
    assert isinstance(loaded, Policy)
    assert isinstance(loaded, TinyPolicy)
    assert not loaded.training
    assert loaded.spec == policy.spec
    for name, weight in policy.state_dict().items():
        assert torch.equal(loaded.state_dict()[name], weight), name


def test_newest_checkpoint_of_a_run_is_taken(policy: TinyPolicy, tmp_path: Path) -> None:
    for step in (2, 10, 9):
        folder = tmp_path / f"checkpoints/step-{step:08d}"
        checkpoint.save(folder, policy, {**CONFIG, "name": f"at {step}"}, policy.spec, STATISTICS)
    (tmp_path / "checkpoints/step-00000011.tmp").mkdir()
    assert checkpoint.policy_config(checkpoint.resolve(tmp_path))["name"] == "at 10"
    with pytest.raises(RobomemError, match="holds no checkpoint; give the folder of a run"):
        load(tmp_path / "nothing")


@pytest.mark.parametrize("name", [checkpoint.WEIGHTS, checkpoint.CONFIG, checkpoint.SPEC, checkpoint.STATISTICS])
@pytest.mark.parametrize("damage", ["missing", "empty", "truncated", "garbage"])
def test_missing_or_damaged_file_is_named(saved: Path, name: str, damage: str) -> None:
    path = saved / name
    data = path.read_bytes()
    if damage == "missing":
        path.unlink()
    else:
        path.write_bytes({"empty": b"", "truncated": data[: len(data) // 2], "garbage": bytes(range(256))}[damage])
    with pytest.raises(RobomemError, match=r"(missing|damaged).*(copy|use another)") as caught:
        load(saved)
    assert str(path) in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("name", [checkpoint.SPEC, checkpoint.STATISTICS])
def test_json_of_another_form_is_refused(saved: Path, name: str) -> None:
    (saved / name).write_text('{"other": 1}')
    with pytest.raises(RobomemError, match=rf"{name} is not what this version writes"):
        load(saved)


def test_other_statistics_are_refused_naming_both(saved: Path) -> None:
    change_json(saved / checkpoint.STATISTICS, ticks=STATISTICS.ticks + 1)
    other = replace(STATISTICS, ticks=STATISTICS.ticks + 1).digest
    with pytest.raises(SpecMismatch, match=rf"{STATISTICS.digest}.*{other}.*copy it again as a whole"):
        load(saved)


def test_statistics_of_another_policy_are_not_saved(policy: TinyPolicy, tmp_path: Path) -> None:
    with pytest.raises(SpecMismatch):
        checkpoint.save(tmp_path / "x", policy, CONFIG, policy.spec, replace(STATISTICS, ticks=1))
    assert not list(tmp_path.iterdir())


def test_other_configuration_is_refused_naming_both(saved: Path) -> None:
    change_json(saved / checkpoint.CONFIG, hidden=5)
    with pytest.raises(
        SpecMismatch, match=r"head\.weight: the file has \(6, 8\) float32, the policy \(6, 5\) float32|in all"
    ):
        load(saved)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda w: w.pop("head.bias"), r"head\.bias: the file has none, the policy \(6,\) float32"),
        (lambda w: w.update(extra=torch.zeros(1)), r"extra: the file has \(1,\) float32, the policy none"),
        (lambda w: w.update(mean=w["mean"].double()), r"mean: the file has \(4,\) float64, the policy \(4,\) float32"),
    ],
)
def test_other_weights_are_refused_naming_both(saved: Path, change: Callable[[Any], Any], message: str) -> None:
    weights = load_tensors(saved / checkpoint.WEIGHTS)
    change(weights)
    save_tensors(saved / checkpoint.WEIGHTS, weights)
    with pytest.raises(SpecMismatch, match=message):
        load(saved)


def test_existing_folder_is_not_overwritten(saved: Path, policy: TinyPolicy) -> None:
    before = checkpoint.digest(saved)
    with pytest.raises(RobomemError, match="exists; give the checkpoint another folder"):
        checkpoint.save(saved, policy, CONFIG, policy.spec, STATISTICS)
    assert checkpoint.digest(saved) == before


def test_full_disk_leaves_nothing_behind(policy: TinyPolicy, tmp_path: Path) -> None:
    with small_files(1000), pytest.raises(RobomemError, match=r"the checkpoint was not saved.*Free some space"):
        checkpoint.save(tmp_path / "saved", policy, CONFIG, policy.spec, STATISTICS)
    assert not list(tmp_path.iterdir())


def test_digest_follows_every_file(saved: Path, tmp_path: Path) -> None:
    before = checkpoint.digest(saved)
    assert checkpoint.digest(shutil.copytree(saved, tmp_path / "copy")) == before
    change_json(saved / checkpoint.CONFIG, name="other")
    assert checkpoint.digest(saved) != before


def test_tensors_that_share_memory_are_saved(tmp_path: Path) -> None:
    whole = torch.arange(6.0).view(2, 3)
    save_tensors(tmp_path / "x", {"whole": whole, "same": whole, "turned": whole.T, "none": whole[:0]})
    loaded = load_tensors(tmp_path / "x")
    assert torch.equal(loaded["turned"], whole.T)
    assert torch.equal(loaded["same"], whole)
    assert loaded["none"].shape == (0, 3)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"action": vector("a", 3)}, "action.names: the checkpoint has"),
        (
            {"action": vector("a", 2, frame="pose")},
            "action.frame: the checkpoint has 'joints', the environment has 'pose'",
        ),
        ({"cameras": (CameraSpec(name="top", height=8, width=8),)}, "cameras: the checkpoint has"),
        ({"action_dt": 0.1}, "action_dt: the checkpoint has 0.05, the environment has 0.1"),
    ],
)
def test_other_environment_is_refused_naming_both(policy: TinyPolicy, change: dict[str, Any], message: str) -> None:
    environment: Any = SimpleNamespace(embodiment=EMBODIMENT)
    checkpoint.check_environment(policy, environment)
    other: EmbodimentSpec = replace(EMBODIMENT, **change)
    environment = SimpleNamespace(embodiment=other)
    with pytest.raises(SpecMismatch, match=message) as caught:
        checkpoint.check_environment(policy, environment)
    assert "train on data of this one" in str(caught.value)
