"""`robomem data inspect`, and training on a dataset in the released layout by naming its path."""

from pathlib import Path

import numpy as np
import pytest
import yaml
from foreign import MIKASA, feature, record
from tiny import write_tiny_dataset

from robomem import checkpoint, cli
from robomem.datasets.mapping import load_mapping
from robomem.datasets.open import open_source
from robomem.datasets.ranges import field_ranges
from robomem.datasets.rlds_writer import write_rlds
from robomem.datasets.schema import read_schema
from robomem.errors import RobomemError
from robomem.sim import embodiment

ARM = {
    "observation.images.front": feature("image", 8, 8, 3),
    "observation.state": feature("float32", 2, names=("shoulder", "elbow")),
    "action": feature("float32", 2),
    "next.success": feature("bool", 1),
}


@pytest.fixture(autouse=True)
def hf_cache(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep Hugging Face's copies out of the user's cache, and the tables wide."""
    import datasets.config

    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", tmp_path_factory.mktemp("hf_datasets"))
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    monkeypatch.setenv("COLUMNS", "200")


@pytest.fixture
def arm(tmp_path: Path) -> Path:
    """A dataset that no mapping fits."""
    return record(tmp_path / "arm", ARM, (3, 4), robot_type="my_arm")


def test_the_released_layout_trains_by_its_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root = record(tmp_path / "remember_color_3_vla_v0", MIKASA, (5, 4, 6), robot_type="mikasa_robo")
    monkeypatch.setenv("ROBOMEM_OUTPUTS", str(tmp_path))
    command = ["train", f"data.root={root}", "policy=memoryless", "data.batch_size=2", "data.window=3", "max_steps=2"]
    assert cli.run([*command, "name=released", "device=cpu"]) == 0
    trained = checkpoint.resolve(tmp_path / "train/released")
    assert checkpoint.steps_of(trained) == 2
    assert checkpoint.read_spec(trained).embodiment == embodiment.MIKASA


def test_an_unknown_dataset_is_shown_and_a_mapping_proposed(arm: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.run(["data", "inspect", str(arm)]) == 0
    said = capsys.readouterr().out
    for part in ("LeRobotDataset v3", "my_arm", "2, 7 ticks", "touch cube 0", "shoulder: -0.", "8 x 8 x 3"):
        assert part in said
    assert "no: it is for the robot mikasa_robo, not my_arm; there is no field observation.images.top" in said
    assert "units: ['?', '?']" in said


def test_a_proposal_works_once_it_is_decided(arm: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "arm.yaml"
    assert cli.run(["data", "inspect", str(arm), "--write", str(file)]) == 0
    assert cli.run(["data", "inspect", str(arm), "--write", str(file)]) == 1
    assert "exists already" in capsys.readouterr().err
    with pytest.raises(RobomemError, match=r"proprio.spec.units\[0\] is still '\?'; decide it"):
        load_mapping(str(file))
    file.write_text(file.read_text().replace("'?'", "rad"))
    assert yaml.safe_load(file.read_text())["success"] == "next.success"
    source = open_source(arm, mapping=str(file))
    assert source.embodiment.proprio.names == ("shoulder", "elbow")
    assert source.embodiment.action_dt == 0.1
    assert list(source[1].images) == ["front"]
    lowest = min(episode.proprio[:, 0].min() for episode in source)
    assert source.embodiment.proprio.low[0] == pytest.approx(lowest, abs=1e-4)


def test_a_fitting_mapping_is_named_and_none_proposed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    root = record(tmp_path / "task", MIKASA, (2,), robot_type="mikasa_robo")
    assert cli.run(["data", "inspect", str(root)]) == 0
    said = capsys.readouterr().out
    assert "yes" in next(line for line in said.splitlines() if "mikasa_lerobot" in line)
    assert "'?'" not in said


def test_ones_own_dataset_needs_no_mapping(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.run(["data", "inspect", str(write_tiny_dataset(tmp_path / "own", episodes=2))]) == 0
    said = capsys.readouterr().out
    assert "it needs no mapping" in said
    assert "mikasa_lerobot" not in said
    assert cli.run(["data", "inspect", str(tmp_path / "none")]) == 1


def test_ranges_of_rlds_and_npz_are_those_of_their_episodes(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    own = open_source(write_tiny_dataset(tmp_path / "own", episodes=3))
    rlds = write_rlds(own, tmp_path / "rlds")
    actions = np.concatenate([episode.actions for episode in own])
    np.savez(tmp_path / "train_data_0.npz", action=actions)
    for root, field in ((rlds, "action"), (tmp_path, "action")):
        low, high = field_ranges(read_schema(root))[field]
        np.testing.assert_array_equal(low, actions.min(axis=0))
        np.testing.assert_array_equal(high, actions.max(axis=0))
    monkeypatch.setattr("robomem.datasets.ranges.MOST_EPISODES", 1)
    assert field_ranges(read_schema(rlds))["action"][0] == own[0].actions.min(axis=0).tolist()
    assert cli.run(["data", "inspect", str(rlds)]) == 0
    assert "range in 1 episodes" in capsys.readouterr().out
