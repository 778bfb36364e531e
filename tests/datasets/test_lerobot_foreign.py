"""Datasets that LeRobot recorded are read as LeRobot reads them, and never wrongly."""

import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from foreign import MIKASA, feature, frame_values, record

from robomem.datasets.lerobot_foreign import LeRobotSource
from robomem.datasets.lerobot_index import read_parquet
from robomem.datasets.mapping import SchemaMapping, VectorMapping, load_mapping
from robomem.datasets.schema import read_schema
from robomem.datasets.statistics import compute_statistics
from robomem.errors import RobomemError
from robomem.spec import VectorSpec

LENGTHS = (5, 8, 6, 7, 9)
VIDEO = "videos/observation.images.top/chunk-000/file-000.mp4"
DATA = "data/chunk-000/file-000.parquet"
EPISODES = "meta/episodes/chunk-000/file-000.parquet"
IMAGES = {
    "observation.images.front": feature("image", 10, 14, 3),
    "observation.joints": feature("float32", 2, names=("a", "b")),
    "observation.gripper": feature("float64", 1),
    "action": feature("float32", 3),
    "next.reward": feature("float32", 1),
    "next.success": feature("bool", 1),
    "seconds": feature("float64", 1),
    "told": feature("string", 1),
}


def spec(*names: str) -> VectorSpec:
    size = len(names)
    return VectorSpec(names=names, units=("rad",) * size, frame="joints", low=(-1.0,) * size, high=(1.0,) * size)


IMAGE_MAPPING = SchemaMapping(
    name="images",
    format="lerobot",
    cameras={"*": "observation.images.*"},
    proprio=VectorMapping(keys=("observation.joints", "observation.gripper"), spec=spec("a", "b", "gripper")),
    action=VectorMapping(keys=("action",), spec=spec("x", "y", "z")),
    instruction="told",
    timestamps="seconds",
    reward="next.reward",
    success="next.success",
)


@pytest.fixture(scope="module")
def mikasa(tmp_path_factory: pytest.TempPathFactory, hf_cache: None) -> Path:
    """Videos of several episodes per file, in several files; not to be changed."""
    root = tmp_path_factory.mktemp("foreign") / "mikasa"
    return record(root, MIKASA, LENGTHS, robot_type="mikasa_robo", video_files_size_in_mb=0.0024)


@pytest.fixture(scope="module")
def images(tmp_path_factory: pytest.TempPathFactory, hf_cache: None) -> Path:
    """Images in the rows, in several files; not to be changed."""
    return record(tmp_path_factory.mktemp("foreign") / "images", IMAGES, (3, 4, 2), data_files_size_in_mb=0.001)


@pytest.fixture
def copy(mikasa: Path, tmp_path: Path) -> Path:
    """A copy of `mikasa`, to be harmed."""
    return shutil.copytree(mikasa, tmp_path / "copy")


def open_mikasa(root: Path, episodes: Any = None, cache_bytes: int = 0) -> LeRobotSource:
    return LeRobotSource(root, load_mapping("mikasa_lerobot"), episodes, cache_bytes)


def test_the_samples_are_spread_over_files(mikasa: Path, images: Path) -> None:
    videos = list(mikasa.rglob("videos/observation.images.top/*/*.mp4"))
    assert 1 < len(videos) < len(LENGTHS)
    assert 1 < len(list(images.rglob("data/*/*.parquet"))) <= 3


def test_videos_are_read_as_lerobot_reads_them(mikasa: Path) -> None:
    from lerobot.datasets import LeRobotDataset

    theirs: Any = LeRobotDataset("local/foreign", root=mikasa, video_backend="pyav", return_uint8=True)
    source = open_mikasa(mikasa)
    assert (source.lengths, source.seeds, source.successes) == (LENGTHS, (0, 1, 2, 3, 4), (True,) * 5)
    row = 0
    for index, episode in enumerate(source):
        assert episode.instruction == f"touch cube {index % 2}"
        np.testing.assert_array_equal(episode.timestamps, np.arange(LENGTHS[index]) * 0.05)
        np.testing.assert_array_equal(episode.success, np.arange(LENGTHS[index]) == LENGTHS[index] - 1)
        episode.check(source.embodiment)
        for tick in range(LENGTHS[index]):
            item, made = theirs[row], frame_values(MIKASA, index, tick)
            for camera in ("top", "wrist"):
                frame = item[f"observation.images.{camera}"].permute(1, 2, 0).numpy()
                np.testing.assert_array_equal(episode.images[camera][tick], frame, strict=True)
                away = np.abs(episode.images[camera][tick].astype(float) - made[f"observation.images.{camera}"])
                assert away.mean() < 2, "the frame of another tick"
            np.testing.assert_array_equal(episode.proprio[tick], made["observation.state"], strict=True)
            np.testing.assert_array_equal(episode.actions[tick], made["action"], strict=True)
            row += 1


def test_a_subset_in_any_order(mikasa: Path) -> None:
    whole, part = open_mikasa(mikasa), open_mikasa(mikasa, [4, 1, 3])
    assert (part.indices, part.lengths) == ((4, 1, 3), (9, 8, 7))
    for position, index in enumerate(part.indices):
        np.testing.assert_array_equal(part[position].images["wrist"], whole[index].images["wrist"])
        np.testing.assert_array_equal(part[position].actions, whole[index].actions)
    with pytest.raises(RobomemError, match="episodes 0 to 4; there is no episode 5"):
        open_mikasa(mikasa, [5])


def test_images_and_every_part_of_a_mapping(images: Path) -> None:
    source = LeRobotSource(images, IMAGE_MAPPING)
    assert [(c.name, c.height, c.width) for c in source.embodiment.cameras] == [("front", 10, 14)]
    assert source.embodiment.action_dt == 0.1
    for index, episode in enumerate(source):
        made = [frame_values(IMAGES, index, tick) for tick in range(len(episode))]
        assert episode.instruction == f"do {index}"
        for tick, values in enumerate(made):
            np.testing.assert_array_equal(episode.images["front"][tick], values["observation.images.front"])
            joined = np.concatenate([values["observation.joints"], values["observation.gripper"]])
            np.testing.assert_array_equal(episode.proprio[tick], joined.astype(np.float32))
            assert episode.timestamps[tick] == values["seconds"][0]
            assert episode.reward[tick] == values["next.reward"][0]
            assert episode.success[tick] == values["next.success"][0]
    assert source.successes == tuple(bool(episode.success.any()) for episode in source)


def test_rows_of_several_episodes_may_share_a_row_group(mikasa: Path, copy: Path) -> None:
    table = read_parquet(copy / DATA)
    pq.write_table(table, copy / DATA, row_group_size=9)
    assert pq.read_metadata(copy / DATA).num_row_groups == 4
    for episode, expected in zip(open_mikasa(copy), open_mikasa(mikasa), strict=True):
        np.testing.assert_array_equal(episode.proprio, expected.proprio)


def test_only_the_frames_of_an_episode_are_decoded(mikasa: Path, copy: Path) -> None:
    import av

    container = av.open(str(copy / VIDEO))
    places = [(packet.pos, packet.size) for packet in container.demux(video=0) if packet.pos]
    container.close()
    data = bytearray((copy / VIDEO).read_bytes())
    for place, size in places[:4]:
        data[place : place + size] = bytes(size)
    (copy / VIDEO).write_bytes(data)
    np.testing.assert_array_equal(open_mikasa(copy)[1].images["top"], open_mikasa(mikasa)[1].images["top"])
    with pytest.raises(RobomemError, match=r"file-000.mp4 is damaged .*episode 0"):
        open_mikasa(copy)[0]


def test_statistics_decode_no_frame(mikasa: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("robomem.datasets.lerobot_foreign.read_clip", None)
    assert compute_statistics(open_mikasa(mikasa)).ticks == sum(LENGTHS)


def test_decoded_episodes_are_kept(mikasa: Path) -> None:
    source = open_mikasa(mikasa, cache_bytes=10**8)
    assert source[1] is source[1]
    with pytest.raises(ValueError, match="read-only"):
        source[1].images["top"][0] = 0


def change_column(path: Path, name: str, change: Callable[[list[Any]], list[Any]]) -> None:
    """Write a table again with other values in a column."""
    table = read_parquet(path)
    position = table.schema.get_field_index(name)
    values = pa.array(change(table[name].to_pylist()), table.schema.field(name).type)
    pq.write_table(table.set_column(position, table.schema.field(name), values), path)


def truncate(path: Path) -> None:
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def without_last_frames(path: Path) -> None:
    """Copy a video without its last two frames, its index intact."""
    import av

    shorter = path.with_suffix(".short.mp4")
    with av.open(str(path)) as source, av.open(str(shorter), "w") as target:
        stream = target.add_stream_from_template(source.streams.video[0], opaque=True)
        for packet in [p for p in source.demux(video=0) if p.dts is not None][:-2]:
            packet.stream = stream
            target.mux(packet)
    shorter.replace(path)


def claim_fewer_frames(path: Path) -> None:
    change_column(path, "videos/observation.images.top/to_timestamp", lambda times: [times[0] - 0.1, *times[1:]])


def swap_episodes(path: Path) -> None:
    change_column(path, "episode_index", lambda values: [{0: 1, 1: 0}.get(value, value) for value in values])


def change_the_task(path: Path) -> None:
    change_column(path, "task_index", lambda values: [1, *values[1:]])


def spoil_a_number(path: Path) -> None:
    change_column(path, "action", lambda rows: [*rows[:6], [float("nan")] * 7, *rows[7:]])


def lose_the_actions(path: Path) -> None:
    pq.write_table(read_parquet(path).drop(["action"]), path)


@pytest.mark.parametrize(
    ("name", "harm", "message"),
    [
        (VIDEO, truncate, r"observation.images.top/.*file-000.mp4 is damaged .*episode \d"),
        (VIDEO, without_last_frames, r"file-000.mp4 is damaged .*it has \d frames for the \d ticks of episode \d"),
        (VIDEO, Path.unlink, r"file-000.mp4 is damaged .*it is missing and holds frames of episode 0"),
        (EPISODES, claim_fewer_frames, "counts 4 frames of observation.images.top for the 5 ticks of episode 0"),
        (EPISODES, truncate, "file-000.parquet is damaged"),
        (DATA, truncate, "file-000.parquet is damaged"),
        (DATA, Path.unlink, "file-000.parquet is missing"),
        (DATA, lose_the_actions, "file-000.parquet is damaged .*it has no column action"),
        (DATA, swap_episodes, "rows 0 to 4 are not those of episode 0"),
        (
            DATA,
            spoil_a_number,
            "damaged .*actions of the episode with seed 1 is not finite at tick 1",
        ),
        (DATA, change_the_task, "episode 0 has 2 instructions in place of one"),
        ("meta/tasks.parquet", Path.unlink, "tasks.parquet is missing"),
        ("meta/info.json", truncate, "info.json is damaged"),
    ],
)
def test_damage_is_named(copy: Path, name: str, harm: Callable[[Path], None], message: str) -> None:
    harm(copy / name)
    with pytest.raises(RobomemError, match=rf"^[^\n]*{message}[^\n]*$"):
        list(open_mikasa(copy))


def test_an_older_format_names_the_converter(copy: Path) -> None:
    info = copy / "meta/info.json"
    info.write_text(info.read_text().replace("v3.0", "v2.1"))
    with pytest.raises(RobomemError, match=r"LeRobotDataset v2.1.*convert_dataset_v21_to_v30"):
        open_mikasa(copy)


def test_a_mapping_that_does_not_fit_is_refused(mikasa: Path) -> None:
    other = replace(IMAGE_MAPPING, instruction="task")
    with pytest.raises(RobomemError, match=r"mapping images: .*no field observation.joints.*no field next.reward"):
        LeRobotSource(mikasa, other)


def test_channels_first_and_depth_are_told_apart(images: Path, tmp_path: Path) -> None:
    import json

    root = shutil.copytree(images / "meta", tmp_path / "other/meta").parent
    info = json.loads((root / "meta/info.json").read_text())
    front = info["features"]["observation.images.front"]
    front |= {"shape": [3, 10, 14], "names": ["channels", "height", "width"]}
    info["features"]["depth"] = {**front, "shape": [10, 14, 1], "names": None, "info": {"is_depth_map": True}}
    (root / "meta/info.json").write_text(json.dumps(info))
    fields = read_schema(root).fields
    assert fields["observation.images.front"].shape == (10, 14, 3)
    assert not fields["depth"].is_camera
