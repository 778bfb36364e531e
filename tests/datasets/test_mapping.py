"""Mappings are typed, and a dataset gets its meaning by the only one that fits or not at all."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml
from foreign import MIKASA as MIKASA_FEATURES
from foreign import feature

from robomem.datasets.mapping import load_mapping, mapping_names
from robomem.datasets.matching import choose_mapping, misfits
from robomem.datasets.schema import DatasetSchema, Field, read_schema
from robomem.errors import RobomemError
from robomem.groups import groups
from robomem.sim.embodiment import MIKASA
from robomem.spec import EmbodimentSpec

JOINTS = ["shoulder_pan.pos", "shoulder_lift.pos", "elbow_flex.pos", "wrist_flex.pos", "wrist_roll.pos", "gripper.pos"]
SO100 = {
    "observation.images.laptop": feature("video", 480, 640, 3),
    "observation.images.wrist": feature("video", 480, 640, 3),
    "observation.state": feature("float32", 6, names=JOINTS),
    "action": feature("float32", 6, names=JOINTS),
}


def lerobot(root: Path, features: dict[str, Any], robot_type: str | None) -> DatasetSchema:
    """The schema of a LeRobotDataset v3 with these features, of which only `meta/info.json` is there."""
    info = {"codebase_version": "v3.0", "fps": 30, "total_episodes": 2, "total_frames": 9, "robot_type": robot_type}
    (root / "meta").mkdir()
    (root / "meta/info.json").write_text(json.dumps(info | {"features": features}))
    return read_schema(root)


def rlds(**others: Field) -> DatasetSchema:
    """The schema of the released RLDS data."""
    image, vector = Field(dtype="image", shape=(128, 128, 3)), Field(dtype="float32", shape=(7,))
    fields = {"observation/image": image, "observation/wrist_image": image, "observation/proprio": vector}
    fields |= {"action": vector, "reward": Field(dtype="float32", shape=()), "is_first": Field(dtype="bool", shape=())}
    fields |= {"language_instruction": Field(dtype="string", shape=())} | others
    return DatasetSchema(
        root=Path("here"), format="rlds", recorded=False, robot_type="mikasa_dataset", fps=None, episodes=1, ticks=None,
        fields=fields,
    )  # fmt: skip


def text(**changes: Any) -> str:
    """`mikasa_lerobot` as YAML with changes."""
    path = Path(__file__).parents[2] / "configs/mapping/mikasa_lerobot.yaml"
    return yaml.safe_dump(yaml.safe_load(path.read_text()) | changes)


@pytest.mark.parametrize("name", mapping_names())
def test_every_mapping_is_valid(name: str) -> None:
    assert load_mapping(name).name == name


def test_mappings_are_no_group_of_hydra() -> None:
    assert "memory" in groups()
    assert "mapping" not in groups()


@pytest.mark.parametrize("name", ["mikasa_lerobot", "mikasa_rlds", "mikasa_npz"])
def test_mikasa_is_the_simulated_robot(name: str) -> None:
    mapping = load_mapping(name)
    assert tuple(mapping.cameras) == tuple(camera.name for camera in MIKASA.cameras)
    found = EmbodimentSpec(
        cameras=MIKASA.cameras, proprio=mapping.proprio.spec, action=mapping.action.spec, action_dt=mapping.period or 0
    )
    assert found == MIKASA


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"camera": {}}, "unknown key 'camera'; did you mean 'cameras'?"),
        ({"proprio": {"keys": ["a"], "spek": {}}}, "unknown key 'proprio.spek'; did you mean 'spec'?"),
        ({"proprio": {"keys": ["a"]}}, "it needs a value for proprio.spec"),
        ({"proprio": {"keys": "a", "spec": {}}}, r"proprio.keys is 'a' and must be a list"),
        ({"period": "fast"}, "period is 'fast' and must be a number or null"),
        ({"period": 50}, "period=50.0 must be seconds"),
        ({"success": 1.5}, "success is 1.5 and must be text or true or false"),
        ({"format": "zarr"}, "format='zarr' is not one of lerobot, rlds"),
        ({"instruction": "?"}, "instruction is still '\\?'; decide it"),
        ({"cameras": ["top"]}, "cameras is \\['top'\\] and must be keys with values"),
    ],
)
def test_a_mistake_is_named(tmp_path: Path, changes: dict[str, Any], message: str) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text(text(**changes))
    with pytest.raises(RobomemError, match=message):
        load_mapping(str(path))


def test_a_vector_of_uneven_parts_is_named(tmp_path: Path) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text(text().replace("high:\n    - 1.0\n", "high:\n", 1))
    with pytest.raises(RobomemError, match=r"mine.yaml is wrong: high has 6 entries for 7 names"):
        load_mapping(str(path))


def test_files_that_are_no_mapping_are_named(tmp_path: Path) -> None:
    with pytest.raises(RobomemError, match=r"'mikasa_lerobo' is no mapping .*did you mean 'mikasa_lerobot'"):
        load_mapping("mikasa_lerobo")
    with pytest.raises(RobomemError, match=r"none.yaml cannot be read"):
        load_mapping(str(tmp_path / "none.yaml"))
    for content, message in {"{": "cannot be read", "[1]": "the file is \\[1\\]", "": "the file is None"}.items():
        (tmp_path / "some.yaml").write_text(content)
        with pytest.raises(RobomemError, match=message):
            load_mapping(str(tmp_path / "some.yaml"))


def test_the_only_mapping_that_fits_is_chosen(tmp_path: Path) -> None:
    assert choose_mapping(lerobot(tmp_path, MIKASA_FEATURES, "mikasa_robo")).name == "mikasa_lerobot"
    assert choose_mapping(rlds()).name == "mikasa_rlds"


def test_units_that_nothing_tells_are_asked_for(tmp_path: Path) -> None:
    schema = lerobot(tmp_path, SO100, "so101_follower")
    with pytest.raises(
        RobomemError, match=r"several mappings, so100_lerobot and so100_normalised_lerobot; .*data inspect .*=NAME"
    ):
        choose_mapping(schema)
    chosen = choose_mapping(schema, "so100_lerobot")
    assert chosen.cameras == {"laptop": "observation.images.laptop", "wrist": "observation.images.wrist"}


def test_no_mapping_is_guessed(tmp_path: Path) -> None:
    schema = lerobot(tmp_path, MIKASA_FEATURES, "another_robot")
    with pytest.raises(RobomemError, match=r"fits no mapping of bridge_rlds, .*data inspect .*data.mapping=FILE"):
        choose_mapping(schema)
    assert choose_mapping(schema, "mikasa_lerobot").name == "mikasa_lerobot"  # the user's word


def test_reasons_name_what_differs(tmp_path: Path) -> None:
    mapping = replace(load_mapping("mikasa_lerobot"), reward="next.reward", instruction="told")
    features = MIKASA_FEATURES | {"action": feature("float32", 6), "observation.images.top": feature("float32", 3)}
    features.pop("observation.images.wrist")
    assert misfits(mapping, lerobot(tmp_path, features, None)) == [
        "it is for the robot mikasa_robo, not one without a name",
        "observation.images.top is float32 of shape [3], not a camera",
        "there is no field observation.images.wrist",
        "action has 6 numbers, not 7",
        "there is no text told",
        "there is no field next.reward",
    ]
    assert misfits(mapping, rlds()) == ["it is for lerobot"]
    assert misfits(load_mapping("so100_lerobot"), replace(rlds(), format="lerobot"))[1] == "there is no camera"
