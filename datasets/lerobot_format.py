"""The LeRobotDataset v3 format on disk, built without importing LeRobot (which takes seconds).

Beyond what LeRobot writes itself, a dataset of RoboMem has

- the feature `capture_time`: measured float64 seconds since the episode's start (`timestamp` is LeRobot's nominal
  `frame_index / fps`);
- the columns `seed`, `success` and `provenance` in the episodes' table;
- `meta/robomem.json`: the embodiment and the provenance of the whole.

The place of an episode is its row group's rank over the data files in the order of their paths, which is the order in
which LeRobot reads rows.
"""

import io
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from robomem.datasets.config import FrameCodec
from robomem.datasets.encoding import EncodedEpisode, FeatureStatistics, image_feature, vector_statistics
from robomem.datasets.video_encoding import video_info
from robomem.spec import CameraSpec, EmbodimentSpec

DATA = "data"
VIDEOS = "videos"
EPISODES = "meta/episodes"
INFO = "meta/info.json"
STATISTICS = "meta/stats.json"
TASKS = "meta/tasks.parquet"
ROBOMEM = "meta/robomem.json"

DATA_PATH = "data/chunk-{chunk_index:03d}/file-{file_index:03d}.parquet"
VIDEO_PATH = "videos/{video_key}/chunk-{chunk_index:03d}/file-{file_index:03d}.mp4"

FILES_PER_CHUNK = 1000
FILE_MB = 100
VIDEO_MB = 2 * FILE_MB
_AUTOMATIC = {
    "timestamp": "float32",
    "frame_index": "int64",
    "episode_index": "int64",
    "index": "int64",
    "task_index": "int64",
}
_ARROW = {"float32": pa.float32(), "float64": pa.float64(), "int64": pa.int64(), "bool": pa.bool_()}

Features = Mapping[str, Mapping[str, Any]]
"""LeRobot's description of each column: dtype, shape and names."""


def chunk_and_file(number: int) -> tuple[int, int]:
    """LeRobot's two indices of the file with this running number."""
    return divmod(number, FILES_PER_CHUNK)


def parquet_path(folder: Path, number: int) -> Path:
    """Path of the file with this running number in a folder of parquet files."""
    chunk, file = chunk_and_file(number)
    return folder / f"chunk-{chunk:03d}" / f"file-{file:03d}.parquet"


def parquet_files(folder: Path) -> list[Path]:
    """Parquet files in LeRobot's reading order."""
    return sorted(folder.glob("*/*.parquet"))


def video_path(root: Path, feature: str, number: int) -> Path:
    """Path of the video file of a feature with this running number."""
    chunk, file = chunk_and_file(number)
    return root / VIDEO_PATH.format(video_key=feature, chunk_index=chunk, file_index=file)


def video_features(features: Features) -> list[str]:
    """Features whose frames are in video files."""
    return [name for name, feature in features.items() if feature["dtype"] == "video"]


def frame_codec(features: Features) -> FrameCodec:
    """How a dataset of RoboMem stores its frames; raises `RobomemError` for a codec that it does not write."""
    for name in video_features(features):
        info = features[name]["info"]
        return FrameCodec(codec=info["video.codec"], crf=info.get("video.crf"))
    return FrameCodec()


def new_info(embodiment: EmbodimentSpec, codec: FrameCodec) -> dict[str, Any]:
    """`meta/info.json` of an empty dataset."""
    return {
        "codebase_version": "v3.0",
        "fps": embodiment.fps,
        "features": _features(embodiment, codec),
        "total_episodes": 0,
        "total_frames": 0,
        "total_tasks": 0,
        "chunks_size": FILES_PER_CHUNK,
        "data_files_size_in_mb": FILE_MB,
        "video_files_size_in_mb": VIDEO_MB,
        "data_path": DATA_PATH,
        "video_path": VIDEO_PATH if codec.is_video else None,
        "robot_type": None,
        "splits": {},
    }


def _features(embodiment: EmbodimentSpec, codec: FrameCodec) -> dict[str, dict[str, Any]]:
    def image(camera: CameraSpec) -> dict[str, Any]:
        feature = {"shape": [camera.height, camera.width, 3], "names": ["height", "width", "channels"]}
        if not codec.is_video:
            return {"dtype": "image", **feature}
        return {"dtype": "video", **feature, "info": video_info(camera.height, camera.width, embodiment.fps, codec)}

    def vector(dtype: str, size: int = 1, names: tuple[str, ...] | None = None) -> dict[str, Any]:
        return {"dtype": dtype, "shape": [size], "names": list(names) if names else None}

    return {
        **{image_feature(camera.name): image(camera) for camera in embodiment.cameras},
        "observation.state": vector("float32", embodiment.proprio.size, embodiment.proprio.names),
        "action": vector("float32", embodiment.action.size, embodiment.action.names),
        "next.reward": vector("float32"),
        "next.success": vector("bool"),
        "capture_time": vector("float64"),
        **{name: vector(dtype) for name, dtype in _AUTOMATIC.items()},
    }


def data_schema(features: Features) -> pa.Schema:
    """Arrow schema of the data files, with the metadata by which Hugging Face's viewer knows an image."""
    fields, described = [], {}
    for name, feature in features.items():
        if feature["dtype"] == "video":
            continue
        size = feature["shape"][0]
        value = {"dtype": feature["dtype"], "_type": "Value"}
        if feature["dtype"] == "image":
            kind, described[name] = (pa.struct({"bytes": pa.binary(), "path": pa.string()}), {"_type": "Image"})
        elif size == 1:
            kind, described[name] = _ARROW[feature["dtype"]], value
        else:
            kind = pa.list_(_ARROW[feature["dtype"]], size)
            described[name] = {"feature": value, "length": size, "_type": "List"}
        fields.append(pa.field(name, kind))
    return pa.schema(fields, metadata={"huggingface": json.dumps({"info": {"features": described}})})


def automatic_columns(ticks: int, fps: int, episode: int, first_row: int, task: int) -> dict[str, np.ndarray]:
    """LeRobot's own columns of one episode."""
    frame = np.arange(ticks)
    return {
        "timestamp": (frame / fps).astype(np.float32),
        "frame_index": frame,
        "episode_index": np.full(ticks, episode),
        "index": first_row + frame,
        "task_index": np.full(ticks, task),
    }


def data_table(encoded: EncodedEpisode, automatic: Mapping[str, np.ndarray], schema: pa.Schema) -> pa.Table:
    """Rows of one episode."""
    images = {name: frames.data for name, frames in encoded.frames.items() if isinstance(frames.data, tuple)}
    columns = {image_feature(name): _image_array(pngs) for name, pngs in images.items()}
    columns |= {name: _array(values) for name, values in {**encoded.columns, **automatic}.items()}
    return pa.table([columns[name].cast(schema.field(name).type) for name in schema.names], schema=schema)


def _array(values: np.ndarray) -> pa.Array:
    if values.ndim == 1 or values.shape[1] == 1:
        return pa.array(values.reshape(-1))
    return pa.FixedSizeListArray.from_arrays(pa.array(values.reshape(-1)), values.shape[1])


def _image_array(pngs: tuple[bytes, ...]) -> pa.Array:
    return pa.StructArray.from_arrays(
        [pa.array(pngs, pa.binary()), pa.nulls(len(pngs), pa.string())], names=["bytes", "path"]
    )


def data_writer(target: Any, schema: pa.Schema) -> pq.ParquetWriter:
    """Parquet writer for data files; each `write_table` makes one row group, which holds one episode."""
    plain: Any = [name for name in schema.names if not pa.types.is_struct(schema.field(name).type)]
    return pq.ParquetWriter(
        target,
        schema,
        compression="snappy",
        use_dictionary=plain,
        write_statistics=plain,
        write_page_checksum=True,
    )


def table_bytes(table: pa.Table) -> bytes:
    """A data file with one episode."""
    sink = io.BytesIO()
    with data_writer(sink, table.schema) as writer:
        writer.write_table(table, row_group_size=len(table))
    return sink.getvalue()


@dataclass(frozen=True, kw_only=True)
class FileNumbers:
    """Running numbers of the files of an episode."""

    data: int
    episodes: int
    """Of the episodes' table."""
    video: int
    """The same for all cameras; each has a folder of its own."""


def episode_row(encoded: EncodedEpisode, automatic: Mapping[str, np.ndarray], numbers: FileNumbers) -> pa.Table:
    """Row of the episodes' table."""
    first = int(automatic["index"][0])
    row: dict[str, Any] = {
        "episode_index": int(automatic["episode_index"][0]),
        "tasks": [encoded.instruction],
        "length": len(encoded),
        **place("data", numbers.data),
        "dataset_from_index": first,
        "dataset_to_index": first + len(encoded),
        "seed": encoded.seed,
        "success": encoded.success,
        "provenance": json.dumps(dict(encoded.provenance), sort_keys=True),
    }
    for feature, statistics in all_statistics(encoded, automatic).items():
        row |= {f"stats/{feature}/{name}": value.tolist() for name, value in statistics.items()}
    for camera in encoded.frames if encoded.codec.is_video else ():
        feature = f"{VIDEOS}/{image_feature(camera)}"
        row |= place(feature, numbers.video) | clip_times(feature, 0, len(encoded), encoded.embodiment.fps)
    row |= place(EPISODES, numbers.episodes)
    return pa.table({name: [value] for name, value in row.items()})


def place(prefix: str, number: int) -> dict[str, int]:
    """Columns of the episodes' table that tell a file by its running number."""
    return dict(zip((f"{prefix}/chunk_index", f"{prefix}/file_index"), chunk_and_file(number), strict=True))


def clip_times(prefix: str, first: int, count: int, fps: int) -> dict[str, float]:
    """Columns of the episodes' table that tell `count` frames of a video, beginning with frame `first`."""
    return {f"{prefix}/from_timestamp": first / fps, f"{prefix}/to_timestamp": (first + count) / fps}


def all_statistics(encoded: EncodedEpisode, automatic: Mapping[str, np.ndarray]) -> Mapping[str, FeatureStatistics]:
    """Statistics of every column of an episode."""
    return dict(encoded.statistics) | {name: vector_statistics(column) for name, column in automatic.items()}


def tasks_bytes(tasks: list[str]) -> bytes:
    """`meta/tasks.parquet`: LeRobot reads it by pandas, with the text as the index."""
    import pandas as pd

    sink = io.BytesIO()
    pd.DataFrame({"task_index": range(len(tasks))}, index=pd.Index(tasks, name="task")).to_parquet(sink)
    return sink.getvalue()
