"""RLDS in and out with the real TensorFlow, which works in one process for the whole module."""

import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import rlds_samples
import torch
from dataset_samples import EMBODIMENT, assert_equal_episodes, vector_spec
from rlds_episodes import BRIDGE, COUNT, MIKASA, RELEASED, SHARD_BYTES, Samples
from tiny import CONFIG, build_tiny, tiny_spec

from robomem.datasets.mapping import SchemaMapping, VectorMapping
from robomem.datasets.rlds_process import TensorFlowProcess, tensorflow_process
from robomem.datasets.rlds_source import RldsSource
from robomem.datasets.rlds_writer import write_rlds
from robomem.datasets.sequences import SequenceBatches
from robomem.datasets.statistics import compute_statistics
from robomem.errors import RobomemError, SpecMismatch


@pytest.fixture(scope="module", autouse=True)
def user_cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The user's cache, in a folder of the tests."""
    with pytest.MonkeyPatch.context() as patch:
        folder = tmp_path_factory.mktemp("cache")
        patch.setenv("XDG_CACHE_HOME", str(folder))
        yield folder


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """`ours` is written by RoboMem, `kitchen` by a plain TFDS builder; `*.npz` is what `tfds.load` reads of each."""
    folder = tmp_path_factory.mktemp("rlds")
    write_rlds(Samples(RELEASED), folder / "ours", shard_bytes=SHARD_BYTES)
    subprocess.run([sys.executable, rlds_samples.__file__, str(folder)], check=True)
    return folder


@pytest.fixture(scope="module")
def ours(folder: Path) -> Path:
    return folder / "ours/mikasa_dataset/1.0.0"


@pytest.fixture
def copy(ours: Path, tmp_path: Path) -> Path:
    """The dataset written by RoboMem, to be damaged."""
    return Path(shutil.copytree(ours, tmp_path / "copy"))


def shard(folder: Path, number: int) -> Path:
    return sorted(folder.glob("*.tfrecord-*"))[number]


@pytest.mark.parametrize("mapping", [None, MIKASA])
def test_what_was_written_is_read(folder: Path, mapping: SchemaMapping | None) -> None:
    expected, source = Samples(RELEASED), RldsSource(folder / "ours", mapping)
    assert source.embodiment == RELEASED
    for name in ("provenance", "indices", "lengths", "seeds", "successes"):
        assert getattr(source, name) == getattr(expected, name)
    for position, (found, episode) in enumerate(zip(source, expected, strict=True)):
        assert_equal_episodes(found, episode)
        assert_equal_episodes(source.without_images(position), expected.without_images(position))
        assert not found.actions.flags.writeable


def test_cameras_of_other_names_keep_them(tmp_path: Path) -> None:
    written = write_rlds(Samples(EMBODIMENT, 2), tmp_path, name="own", version="0.2.0")
    source = RldsSource(written)
    assert source.embodiment == EMBODIMENT
    assert_equal_episodes(source[1], Samples(EMBODIMENT)[1])


def test_a_finished_dataset_is_left_as_it_is(tmp_path: Path) -> None:
    written = write_rlds(Samples(EMBODIMENT, 2), tmp_path)
    before = {path: path.stat().st_mtime_ns for path in written.iterdir()}
    assert write_rlds(Samples(EMBODIMENT, 2), tmp_path) == written
    with pytest.raises(RobomemError, match=r"there is something else at .*1.0.0 already; give another folder"):
        write_rlds(Samples(EMBODIMENT, 3), tmp_path)
    assert {path: path.stat().st_mtime_ns for path in written.iterdir()} == before


def test_others_read_what_was_written(folder: Path) -> None:
    fields = {
        "observation/image": ("uint8", (8, 12, 3)),
        "observation/wrist_image": ("uint8", (10, 10, 3)),
        "observation/proprio": ("float32", (5,)),
        "action": ("float32", (3,)),
        "discount": ("float32", ()),
        "reward": ("float32", ()),
        **dict.fromkeys(("is_first", "is_last", "is_terminal"), ("bool", ())),
    }
    with np.load(folder / "ours.npz") as loaded:
        found = dict(loaded)
    episodes = {int(found[f"{i}/about/seed"]): i for i in range(COUNT)}
    for episode in Samples(RELEASED):
        i, ticks = episodes[episode.seed], len(episode)
        for path, (dtype, shape) in fields.items():
            assert (found[f"{i}/{path}"].dtype.name, found[f"{i}/{path}"].shape) == (dtype, (ticks, *shape))
        np.testing.assert_array_equal(found[f"{i}/observation/wrist_image"], episode.images["wrist"])
        np.testing.assert_array_equal(found[f"{i}/capture_time"], episode.timestamps)
        assert found[f"{i}/is_first"].tolist() == [True] + [False] * (ticks - 1)
        assert found[f"{i}/is_last"].tolist() == [False] * (ticks - 1) + [True]
        assert set(found[f"{i}/language_instruction"]) == {episode.instruction}
        assert json.loads(str(found[f"{i}/about/provenance"])[2:-1]) == episode.provenance


def test_a_dataset_of_others_is_read_by_its_mapping(folder: Path) -> None:
    source = RldsSource(folder / "kitchen", BRIDGE)
    with np.load(folder / "kitchen.npz") as loaded:
        expected = dict(loaded)
    sizes = [(camera.name, camera.height, camera.width) for camera in source.embodiment.cameras]
    assert sizes == [("side", 12, 14), ("front", 16, 20)]
    assert sorted(source.lengths) == sorted(rlds_samples.TICKS["train"])
    assert (source.seeds, source.successes) == ((0, 1, 2, 3), (False,) * 4)
    by_path = {str(expected[f"{i}/about/file_path"])[2:-1]: i for i in range(4)}
    for episode in source:
        i = by_path[episode.provenance["file_path"]]
        np.testing.assert_array_equal(episode.images["front"], expected[f"{i}/observation/image_0"], strict=True)
        np.testing.assert_array_equal(episode.images["side"], expected[f"{i}/observation/image_1"], strict=True)
        np.testing.assert_array_equal(episode.actions, expected[f"{i}/action"], strict=True)
        np.testing.assert_array_equal(episode.proprio[:, 0], expected[f"{i}/observation/gripper"], strict=True)
        np.testing.assert_array_equal(
            episode.proprio[:, 1:], expected[f"{i}/observation/state"].astype(np.float32), strict=True
        )
        np.testing.assert_array_equal(episode.timestamps, 0.2 * np.arange(len(episode)), strict=True)
        assert {episode.instruction} == set(expected[f"{i}/observation/natural_language_instruction"])
    assert RldsSource(folder / "kitchen", replace(BRIDGE, success=True), split="val").lengths == (2,)


def test_a_subset_in_any_order_is_cached_by_position(ours: Path) -> None:
    chosen = (7, 0, 11)
    source = RldsSource(ours, episodes=chosen, cache_bytes=10**6)
    assert source.indices == chosen
    for found, index in zip(source, chosen, strict=True):
        assert_equal_episodes(found, Samples(RELEASED)[index])
    assert source[1] is source[-2]
    with pytest.raises(RobomemError, match="has episodes 0 to 11; there is no episode 12"):
        RldsSource(ours, episodes=(12,))


def test_a_second_opening_reads_no_record(ours: Path, user_cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    RldsSource(ours)
    calls: list[str] = []
    monkeypatch.setattr(TensorFlowProcess, "call", lambda self, dataset, method, *a, **k: calls.append(method))
    assert RldsSource(ours).lengths == Samples(RELEASED).lengths
    assert not calls
    monkeypatch.undo()
    for file in (user_cache / "robomem/rlds").iterdir():
        file.write_bytes(file.read_bytes()[:-10])
    assert RldsSource(ours).lengths == Samples(RELEASED).lengths


def test_a_policy_trains_straight_from_it(ours: Path) -> None:
    source = RldsSource(ours)
    statistics = compute_statistics(source)
    assert statistics.ticks == sum(source.lengths)
    policy = build_tiny(CONFIG, tiny_spec(source.embodiment, statistics), statistics)
    optimiser = torch.optim.SGD(policy.parameters(), lr=0.1)
    batches = SequenceBatches(source, batch_size=2, window=4, horizon=CONFIG["horizon"], seed=0)
    memory, before = policy.init_memory(2), policy.head.weight.detach().clone()
    for window in islice(batches.epoch(0), 2):
        losses, memory = policy.loss(window, memory.detach())
        optimiser.zero_grad()
        torch.stack(list(losses.values())).sum().backward()
        optimiser.step()
    assert torch.isfinite(policy.head.weight).all()
    assert not torch.equal(policy.head.weight, before)
    windows = list(batches.epoch(1))
    assert sum(int(window.valid.sum()) for window in windows) == sum(source.lengths)
    assert windows[0].observation.images["top"].shape == (2, 4, 8, 12, 3)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda data: data[:-5], "truncated record"),
        (lambda data: data[:-60], "is damaged"),
        (lambda data: data[:200] + bytes([data[200] ^ 4]) + data[201:], "corrupted record"),
        (lambda data: data[:2] + bytes([data[2] ^ 4]) + data[3:], "corrupted record"),
        (lambda data: b"", "it holds 0 episodes, dataset_info.json counts"),
    ],
)
def test_a_damaged_shard_is_named(copy: Path, change: Callable[[bytes], bytes], message: str) -> None:
    path = shard(copy, 1)
    path.write_bytes(change(path.read_bytes()))
    with pytest.raises(RobomemError, match=f"{path.name} is damaged .*; restore it from a copy") as caught:
        RldsSource(copy)
    assert message in str(caught.value)


def test_a_shard_damaged_after_the_opening_is_named(copy: Path) -> None:
    source, path = RldsSource(copy), shard(copy, 2)
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)
    last = range(len(source) - 4, len(source))
    with pytest.raises(RobomemError, match=f"{path.name} is damaged"):
        [source[i] for i in last]
    assert_equal_episodes(source[0], Samples(RELEASED)[0])


def test_missing_and_damaged_files_are_named(copy: Path, tmp_path: Path) -> None:
    shard(copy, 1).unlink()
    with pytest.raises(RobomemError, match="00001-of-00003 is missing, as 1 of 3 shards are; restore it"):
        RldsSource(copy)
    (copy / "features.json").write_text("{")
    with pytest.raises(RobomemError, match=r"features.json is damaged"):
        RldsSource(copy)
    with pytest.raises(RobomemError, match=r"there is no RLDS dataset at .*nowhere"):
        RldsSource(tmp_path / "nowhere")


def test_one_of_several_datasets_must_be_named(folder: Path) -> None:
    with pytest.raises(RobomemError, match=r"holds 2 RLDS datasets \(kitchen/kitchen/0.1.0, ours/"):
        RldsSource(folder, MIKASA)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"instruction": "task"}, "has no field 'task' in its steps, only action, is_first"),
        ({"reward": "observation/reward"}, "has no field 'observation/reward'"),
        ({"cameras": {"front": "observation/state"}}, r"observation/state as float64 of shape \(4,\), .* wants RGB"),
        (
            {"instruction": "action"},
            r"action as float32 of shape \(3,\), the mapping bridge_rlds wants one text a step",
        ),
        ({"success": "action"}, r"action as float32 of shape \(3,\), the mapping bridge_rlds wants one number"),
        (
            {"action": VectorMapping(keys=("action",), spec=vector_spec("a", 2))},
            r"has 3 numbers \(action 3\), the mapping bridge_rlds wants 2 \(a0, a1\)",
        ),
        (
            {"action": VectorMapping(keys=("action", "observation/image_0"), spec=vector_spec("a", 3))},
            r"observation/image_0 as uint8 of shape \(16, 20, 3\), .* wants a vector of numbers",
        ),
        ({"robot_type": "droid"}, "is the dataset kitchen, the mapping bridge_rlds is for droid"),
        ({"period": None}, "does not tell the time between ticks; set period in bridge_rlds"),
        ({"format": "lerobot"}, "the mapping bridge_rlds is for lerobot"),
    ],
)
def test_a_mapping_that_does_not_fit_is_refused(folder: Path, change: Mapping[str, Any], message: str) -> None:
    with pytest.raises(RobomemError, match=message):
        RldsSource(folder / "kitchen", replace(BRIDGE, **change))


def test_unknown_splits_and_needed_mappings_are_named(folder: Path) -> None:
    with pytest.raises(RobomemError, match="has no split 'validation'; there are: train, val"):
        RldsSource(folder / "kitchen", BRIDGE, split="validation")
    with pytest.raises(RobomemError, match="was not written by RoboMem; give a mapping"):
        RldsSource(folder / "kitchen")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"name": "My Dataset"}, "is no name and version of a TFDS dataset"),
        ({"version": "1"}, "is no name and version of a TFDS dataset"),
        ({"layout": {"top": "image"}}, "does not fit the cameras top, wrist"),
        ({"layout": {"top": "image", "wrist": "image"}}, "give every camera a field of its own"),
    ],
)
def test_what_cannot_be_written_is_refused(tmp_path: Path, arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(RobomemError, match=message):
        write_rlds(Samples(RELEASED, 2), tmp_path, **arguments)
    assert not list(tmp_path.rglob("*.tfrecord*"))


def test_an_episode_that_does_not_fit_stops_the_writing(tmp_path: Path) -> None:
    smaller = replace(RELEASED, action=vector_spec("a", 2))
    with pytest.raises(SpecMismatch, match="the dataset expects"):
        write_rlds(Samples(smaller, 2), tmp_path)
    assert not (tmp_path / "mikasa_dataset/1.0.0").exists()


def write_and_die(folder: Path) -> None:
    """Write the samples, killed by a signal before the tenth episode; print the number of the TensorFlow process."""

    def before(position: int) -> None:
        if position == 9:
            print(tensorflow_process().pid, flush=True)  # noqa: T201
            os.kill(os.getpid(), signal.SIGKILL)

    write_rlds(Samples(RELEASED, before=before), folder, shard_bytes=SHARD_BYTES)


def test_a_killed_writer_leaves_no_process_and_is_resumed(tmp_path: Path, ours: Path) -> None:
    code = f"import test_rlds; from pathlib import Path; test_rlds.write_and_die(Path({str(tmp_path)!r}))"
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environment, check=False)
    assert done.returncode == -signal.SIGKILL, done.stderr
    with pytest.raises(ProcessLookupError):
        wait_for(int(done.stdout))
    partial = tmp_path / "mikasa_dataset/1.0.0.partial"
    kept = sorted(partial.glob("*.tfrecord-?????-of-?????"))
    assert len(kept) == 2
    times = [path.stat().st_mtime_ns for path in kept]
    with pytest.raises(RobomemError, match="there is no RLDS dataset"):
        RldsSource(tmp_path)

    given: list[int] = []
    target = write_rlds(Samples(RELEASED, before=given.append), tmp_path, shard_bytes=SHARD_BYTES)
    assert given == [7, 8, 9, 10, 11]
    assert [shard(target, i).stat().st_mtime_ns for i in range(2)] == times
    assert sorted(path.name for path in target.iterdir()) == sorted(path.name for path in ours.iterdir())
    for found, expected in zip(RldsSource(target), RldsSource(ours), strict=True):
        assert_equal_episodes(found, expected)
    assert not partial.exists()


def wait_for(pid: int) -> None:
    """Wait until a process has ended; raises `ProcessLookupError` if it had already."""
    import select

    assert select.select([os.pidfd_open(pid)], [], [], 20)[0], f"process {pid} lives on"
    raise ProcessLookupError


def test_another_plan_begins_anew(tmp_path: Path) -> None:
    def interrupt(position: int) -> None:
        if position == 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        write_rlds(Samples(RELEASED, before=interrupt), tmp_path, shard_bytes=1)
    given: list[int] = []
    target = write_rlds(Samples(RELEASED, 3, before=given.append), tmp_path, shard_bytes=1)
    assert given == [0, 1, 2]
    assert len(RldsSource(target)) == 3


def test_a_killed_tensorflow_is_named_and_started_anew(ours: Path) -> None:
    source = RldsSource(ours)
    source[0]
    pid = tensorflow_process().pid
    assert pid
    os.kill(pid, signal.SIGKILL)
    with pytest.raises(RobomemError, match=f"died with exit code -9 while it worked on {ours}.*run the same"):
        source[1]
    assert_equal_episodes(source[1], Samples(RELEASED)[1])


def test_tensorflow_is_in_no_other_process() -> None:
    assert sys.modules.get("tensorflow") is None  # after all of the above; a simulation in this process refuses it
    names = [f"robomem.datasets.{path.stem}" for path in (Path(__file__).parents[2] / "datasets").glob("*.py")]
    code = f"import importlib, sys; [importlib.import_module(n) for n in {names}]; print('tensorflow' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"


def test_datasets_of_hugging_face_work_where_tensorflow_is_refused() -> None:
    code = """
import robomem, sys
sys.modules["tensorflow"] = None  # as a process that renders does
import datasets, numpy
print(datasets.Dataset.from_dict({"x": numpy.ones((2, 3), numpy.float32)})[1])
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "{'x': [1.0, 1.0, 1.0]}"
