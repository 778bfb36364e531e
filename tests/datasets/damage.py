"""Makes small healthy datasets and harms copies of them: each damage is named, with what `check` must say of it."""

import json
import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from dataset_samples import vector_spec

from robomem.datasets import lerobot_format as form
from robomem.datasets.encoding import encode_png
from robomem.datasets.lerobot_writer import EpisodeWriter
from robomem.episode import Episode
from robomem.spec import CameraSpec, EmbodimentSpec

EMBODIMENT = EmbodimentSpec(
    cameras=(CameraSpec(name="top", height=16, width=16), CameraSpec(name="wrist", height=16, width=16)),
    proprio=vector_spec("q", 4),
    action=vector_spec("a", 4),
    action_dt=0.05,
)
EPISODES, TICKS = 6, 40
D0, D1, D2 = (f"data/chunk-000/file-00{n}.parquet" for n in range(3))
E0, E1, E2 = (f"meta/episodes/chunk-000/file-00{n}.parquet" for n in range(3))
TOP, WRIST = (f"videos/observation.images.{camera}/chunk-000/file-000.mp4" for camera in ("top", "wrist"))

Where = tuple[str, int | str | None]
"""A check, and the episode or, without one, the file that it names."""
Harm = Callable[[Path], None]


@dataclass(frozen=True)
class Damage:
    """What was done to a dataset, what must be found (nothing else may), and which episodes cannot be repaired."""

    name: str
    harm: Harm
    found: frozenset[Where]
    lost: frozenset[int] = frozenset()


def damage(name: str, harm: Harm, *found: Where, lost: Sequence[int] = ()) -> Damage:
    """A damage."""
    return Damage(name, harm, frozenset(found), frozenset(lost))


# Healthy datasets.


def smooth_episode(seed: int, ticks: int = TICKS) -> Episode:
    """A robot whose joints follow the commanded speeds at once, and two cameras that see it move."""
    rng = np.random.default_rng(seed)
    time = np.arange(ticks) * 0.05
    speeds = rng.uniform(0.5, 2.5, (3, 4))
    waves = np.sin(2 * np.pi * speeds * time[:, None, None] + rng.uniform(0, 2 * np.pi, (3, 4)))
    actions = (waves.sum(axis=1) / 3).astype(np.float32)
    state = np.concatenate([rng.uniform(-0.3, 0.3, (1, 4)), 0.05 * actions]).cumsum(axis=0)[:ticks].astype(np.float32)
    return Episode(
        images={"top": _film(state, (180, 90, 60)), "wrist": _film(state[:, ::-1], (40, 120, 90))},
        proprio=state,
        actions=actions,
        timestamps=time + np.sort(rng.uniform(0, 0.004, ticks)),
        reward=rng.random(ticks).astype(np.float32),
        success=np.arange(ticks) == ticks - 1,
        instruction=f"pick the {('red', 'green')[seed % 2]} cube",
        seed=100 + seed,
        provenance={"noise": 0.1},
    )


def _film(state: np.ndarray, background: tuple[int, int, int]) -> np.ndarray:
    frames = np.tile(np.array(background, np.uint8), (len(state), 16, 16, 1))
    frames[:, ::4] += 20
    for frame, joints in zip(frames, state, strict=True):
        y, x = (7 + 20 * joints[:2]).clip(0, 12).astype(int)
        frame[y : y + 4, x : x + 4] = 128 + (100 * joints[:3]).clip(-127, 127)
    return frames


def record(root: Path, episodes: Sequence[Episode], merged: int = 4) -> None:
    """Write a dataset whose first episodes share a file, as after an interruption."""
    with EpisodeWriter(root, EMBODIMENT) as writer:
        for episode in episodes[:merged]:
            writer.save(episode)
    writer = EpisodeWriter(root, EMBODIMENT)
    for episode in episodes[merged:]:
        writer.save(episode)
    writer.__exit__(KeyboardInterrupt, None, None)


def record_healthy(root: Path) -> None:
    """Write a healthy dataset of RoboMem: four episodes in one file, and two of a file each."""
    record(root, [smooth_episode(seed) for seed in range(EPISODES)])


def record_videos(root: Path) -> None:
    """Write a healthy dataset of two cameras by LeRobot itself, in the layout of the released MIKASA-Robo-VLA."""
    from lerobot.datasets.lerobot_dataset import LeRobotDataset

    image = {"dtype": "video", "shape": (32, 32, 3), "names": ["height", "width", "channels"]}
    vector = {"dtype": "float32", "shape": (7,), "names": None}
    features = {f"observation.images.{camera}": image for camera in ("top", "wrist")}
    features |= {"observation.state": vector, "action": vector}
    dataset: Any = LeRobotDataset.create(
        "local/x", fps=20, features=features, root=root, robot_type="mikasa_robo", use_videos=True
    )
    for seed in range(4):
        episode = smooth_episode(seed)
        for tick in range(TICKS):
            frame: dict[str, Any] = {
                f"observation.images.{camera}": frames[tick].repeat(2, 0).repeat(2, 1)  # AV1 takes no fewer pixels
                for camera, frames in episode.images.items()
            }
            for name, values in (("observation.state", episode.proprio), ("action", episode.actions)):
                frame[name] = np.concatenate([values[tick], values[tick, :3]])
            dataset.add_frame(frame | {"task": episode.instruction})
        dataset.save_episode(parallel_encoding=False)
    dataset.finalize()


# Harm to files.


def edited(file: str, edit: Callable[[bytes], bytes]) -> Harm:
    """Change the bytes of a file."""

    def harm(root: Path) -> None:
        (root / file).write_bytes(edit((root / file).read_bytes()))

    return harm


def cut(file: str, keep: float) -> Harm:
    """Keep the first part of a file."""
    return edited(file, lambda data: data[: int(keep * len(data))])


def remove(path: str) -> Harm:
    """Remove a file or a folder."""
    return lambda root: shutil.rmtree(root / path) if (root / path).is_dir() else (root / path).unlink()


def flip(file: str, place: int) -> Harm:
    """Flip a bit of a byte of a file."""
    return edited(file, lambda data: _flipped(data, place % len(data)))


def _flipped(data: bytes, place: int) -> bytes:
    return data[:place] + bytes([data[place] ^ 4]) + data[place + 1 :]


def flip_page(file: str, group: int, column: str) -> Harm:
    """Flip a bit in the middle of a column of a row group."""

    def harm(root: Path) -> None:
        row_group = pq.read_metadata(root / file).row_group(group)
        columns = [row_group.column(n) for n in range(row_group.num_columns)]
        chunk = next(c for c in columns if c.path_in_schema.split(".list")[0].startswith(column))
        flip(file, chunk.data_page_offset + chunk.total_compressed_size // 2)(root)

    return harm


def text(file: str, old: bytes, new: bytes) -> Harm:
    """Replace a text in a file."""
    return edited(file, lambda data: data.replace(old, new))


def document(file: str, **changes: Any) -> Harm:
    """Change keys of a JSON file."""
    return edited(file, lambda data: json.dumps(json.loads(data) | changes).encode())


def both(one: Harm, other: Harm) -> Harm:
    """Two harms."""

    def harm(root: Path) -> None:
        one(root)
        other(root)

    return harm


def rows(file: str, edit: Callable[[pa.Table], pa.Table], group: int = 0) -> Harm:
    """Change the rows of a row group, with valid checksums."""

    def harm(root: Path) -> None:
        with pq.ParquetFile(root / file) as parquet:
            tables = [parquet.read_row_group(n) for n in range(parquet.num_row_groups)]
        tables[group] = edit(tables[group])
        with form.data_writer(root / file, tables[group].schema) as writer:
            for table in tables:
                writer.write_table(table, row_group_size=max(len(table), 1))

    return harm


def values(column: str, edit: Callable[[list[Any]], list[Any]]) -> Callable[[pa.Table], pa.Table]:
    """An edit of one column."""

    def change(table: pa.Table) -> pa.Table:
        kind = table.schema.field(column)
        changed = pa.array(edit(table[column].to_pylist()), kind.type)
        return table.set_column(table.schema.get_field_index(column), kind, changed)

    return change


def entry(position: int, value: Any) -> Callable[[list[Any]], list[Any]]:
    """Replace one value of a column."""
    return lambda column: [*column[:position], value, *column[position + 1 :]]


def swap(table: pa.Table) -> pa.Table:
    """Exchange state and actions."""
    names = {"observation.state": "action", "action": "observation.state"}
    return pa.table([table[names.get(name, name)] for name in table.column_names], schema=table.schema)


# Harm to what is recorded.


def recorded(episode: int, edit: Callable[[Episode], Episode]) -> Harm:
    """Record a dataset with one episode changed."""
    return all_recorded(lambda number, original: edit(original) if number == episode else original)


def all_recorded(edit: Callable[[int, Episode], Episode]) -> Harm:
    """Record a dataset with its episodes changed."""

    def harm(root: Path) -> None:
        shutil.rmtree(root)
        record(root, [edit(number, smooth_episode(number)) for number in range(EPISODES)])

    return harm


def images(edit: Callable[[np.ndarray, np.ndarray], tuple[np.ndarray, np.ndarray]]) -> Callable[[Episode], Episode]:
    """Change the frames of both cameras."""

    def change(episode: Episode) -> Episode:
        top, wrist = edit(*(np.array(frames) for frames in episode.images.values()))
        return replace(episode, images={"top": top, "wrist": wrist})

    return change


def times(edit: Callable[[np.ndarray], np.ndarray]) -> Callable[[Episode], Episode]:
    """Change the capture times."""
    return lambda episode: replace(episode, timestamps=edit(np.array(episode.timestamps)))


def shift(ticks: int) -> Callable[[Episode], Episode]:
    """Store each action some ticks late."""
    return lambda episode: replace(
        episode, actions=np.concatenate([smooth_episode(50).actions[:ticks], episode.actions[:-ticks]])
    )


def clip(episode: Episode) -> Episode:
    """Cut the actions off at narrow limits."""
    return replace(episode, actions=episode.actions.clip(-0.1, 0.1))


def stand_still(episode: Episode) -> Episode:
    """Command the same all the time."""
    return replace(episode, actions=np.full_like(episode.actions, 0.5))


def drop(column: str, *files: str) -> Harm:
    """Leave a column out of some data files."""

    def harm(root: Path) -> None:
        for file in files:
            with pq.ParquetFile(root / file) as parquet:
                tables = [parquet.read_row_group(n).drop([column]) for n in range(parquet.num_row_groups)]
            with form.data_writer(root / file, tables[0].schema) as writer:
                for table in tables:
                    writer.write_table(table, row_group_size=len(table))

    return harm


def other_robot(root: Path) -> None:
    """Put a data file of another robot in the place of one."""
    embodiment = replace(EMBODIMENT, action=vector_spec("a", 3))
    with EpisodeWriter(root / "other", embodiment) as writer:
        writer.save(replace(smooth_episode(4), actions=smooth_episode(4).actions[:, :3]))
    (root / "other" / D0).replace(root / D1)
    shutil.rmtree(root / "other")


def kill_writer(root: Path) -> None:
    """Leave what a writer leaves that is killed before it counts an episode in."""
    info = (root / form.INFO).read_bytes()
    writer = EpisodeWriter(root, EMBODIMENT)
    writer.save(smooth_episode(7))
    writer.__exit__(KeyboardInterrupt, None, None)
    (root / form.INFO).write_bytes(info)


def swap_files(one: str, other: str) -> Harm:
    """Exchange two files."""

    def harm(root: Path) -> None:
        (root / one).rename(root / "aside")
        (root / other).rename(root / one)
        (root / "aside").rename(root / other)

    return harm


SMALL_PNG = {"bytes": encode_png(np.zeros((4, 4, 3), np.uint8)), "path": None}
