"""Every format is opened by its folder alone; what cannot be opened says why."""

import json
from pathlib import Path

import pytest
from dataset_samples import EMBODIMENT, make_episode
from foreign import MIKASA, record

from robomem.datasets.lerobot_foreign import LeRobotSource
from robomem.datasets.lerobot_reader import EpisodeReader
from robomem.datasets.lerobot_writer import EpisodeWriter
from robomem.datasets.open import open_source
from robomem.datasets.rlds_source import RldsSource
from robomem.datasets.rlds_writer import write_rlds
from robomem.datasets.schema import Field, read_schema
from robomem.errors import RobomemError
from robomem.sim import embodiment


@pytest.fixture
def own(tmp_path: Path) -> Path:
    """Three episodes that RoboMem wrote."""
    with EpisodeWriter(tmp_path / "own", EMBODIMENT) as writer:
        for seed in range(3):
            writer.save(make_episode(seed))
    return tmp_path / "own"


def test_a_dataset_of_ones_own(own: Path) -> None:
    source = open_source(own, episodes=[2, 0])
    assert isinstance(source, EpisodeReader)
    assert source.seeds == (2, 0)
    with pytest.raises(RobomemError, match=r"needs no mapping; leave out data.mapping=mikasa_lerobot"):
        open_source(own, mapping="mikasa_lerobot")


def test_the_released_layout_of_lerobot(tmp_path: Path, hf_cache: None) -> None:
    root = record(tmp_path / "task", MIKASA, (3, 2), robot_type="mikasa_robo")
    source = open_source(root, episodes=[1])
    assert isinstance(source, LeRobotSource)
    assert source.embodiment == embodiment.MIKASA
    assert source.provenance == {"robot_type": "mikasa_robo", "mapping": "mikasa_lerobot"}
    assert len(source[0]) == 2


def test_rlds_that_robomem_wrote(own: Path, tmp_path: Path) -> None:
    write_rlds(EpisodeReader(own), tmp_path / "rlds")
    schema = read_schema(tmp_path / "rlds")
    assert (schema.format, schema.recorded, schema.episodes) == ("rlds", True, 3)
    assert schema.fields["observation/proprio"] == Field(dtype="float32", shape=(5,))
    assert schema.fields["language_instruction"].dtype == "string"
    assert {name for name, field in schema.fields.items() if field.is_camera} == {
        "observation/base",
        "observation/hand",
    }
    source = open_source(tmp_path / "rlds", episodes=[1])
    assert isinstance(source, RldsSource)
    assert source.embodiment == EMBODIMENT


def test_folders_that_hold_no_dataset_are_named(tmp_path: Path) -> None:
    with pytest.raises(RobomemError, match=r"there is no dataset at .*nowhere; .*robomem collect"):
        open_source(tmp_path / "nowhere")
    with pytest.raises(RobomemError, match=r"neither meta/info.json \(LeRobot\), nor .*\(RLDS\), nor train_data_"):
        open_source(tmp_path)


def test_an_older_lerobot_names_the_converter(tmp_path: Path) -> None:
    (tmp_path / "meta").mkdir()
    (tmp_path / "meta/info.json").write_text(json.dumps({"codebase_version": "v2.1"}))
    with pytest.raises(RobomemError, match=r"is a LeRobotDataset v2.1, .*lerobot.scripts.convert_dataset_v21_to_v30"):
        open_source(tmp_path)


ENDLESS = '{"codebase_version": "v3.0", "fps": 0, "features": {}, "total_episodes": 1, "total_frames": 1}'


@pytest.mark.parametrize("content", ["[]", "{}", ENDLESS, "{"])
def test_a_damaged_description_is_named(tmp_path: Path, content: str) -> None:
    (tmp_path / "meta").mkdir()
    (tmp_path / "meta/info.json").write_text(content)
    with pytest.raises(RobomemError, match=r"info.json is damaged"):
        open_source(tmp_path)
