"""`meta/info.json`: whether it makes sense, and how it is made anew from the data."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa

from robomem.datasets import lerobot_format as form
from robomem.datasets.checking.finding import Finding, one_line
from robomem.datasets.checking.scan import DAMAGE, ScannedFile, read_segment
from robomem.datasets.encoding import decode_png, image_feature
from robomem.datasets.schema import _lerobot_field
from robomem.errors import RobomemError
from robomem.spec import EmbodimentSpec


def read_document(root: Path, file: str) -> dict[str, Any] | Finding:
    """A JSON file that holds a mapping, or why there is none."""
    try:
        value = json.loads((root / file).read_bytes())
    except FileNotFoundError:
        return Finding(check="missing-file", file=file, what="it is missing")
    except (OSError, ValueError, RecursionError) as error:
        return Finding(check="damaged-file", file=file, what=f"it is no JSON ({one_line(error)})")
    return value if isinstance(value, dict) else Finding(check="damaged-file", file=file, what="it holds no mapping")


def read_embodiment(root: Path) -> EmbodimentSpec | Finding:
    """The robot in the file that RoboMem adds to the format, or why there is none."""
    document = read_document(root, form.ROBOMEM)
    if isinstance(document, Finding):
        return document
    try:
        if not isinstance(document["provenance"], dict):
            raise TypeError("its provenance is no mapping")
        return EmbodimentSpec.from_dict(document["embodiment"])
    except (*DAMAGE, RobomemError) as error:
        return Finding(check="damaged-file", file=form.ROBOMEM, what=f"it describes no robot ({one_line(error)})")


def fault(info: Mapping[str, Any]) -> str | None:
    """Why an info cannot be used, if so."""
    if not str(info.get("codebase_version")).startswith("v3"):
        return f"codebase_version is {info.get('codebase_version')!r}"
    for key in ("total_episodes", "total_frames"):
        if type(info.get(key)) is not int:
            return f"{key} is {info.get(key)!r}"
    if type(info.get("fps")) not in (int, float) or not 0 < info["fps"] < 10**4:
        return f"fps is {info.get('fps')!r}"
    features = info.get("features")
    if not isinstance(features, dict):
        return "it has no features"
    for name, feature in features.items():
        try:
            fine = min(_lerobot_field(feature).shape) > 0
        except DAMAGE:
            fine = False
        if not fine:
            return f"the feature {name} has no type or no shape"
    return _path_fault(info)


def _path_fault(info: Mapping[str, Any]) -> str | None:
    videos = any(feature["dtype"] == "video" for feature in info["features"].values())
    for key in ("data_path", "video_path") if videos else ("data_path",):
        try:
            one, other = (info[key].format(video_key="v", chunk_index=n, file_index=n) for n in (0, 1))
        except (*DAMAGE, AttributeError):
            return f"{key} is {info.get(key)!r}"
        if one == other or one.startswith("/") or ".." in one:
            return f"{key} is {info[key]!r}"
    return None


def unlike(features: Mapping[str, Any], schema: pa.Schema) -> str | None:
    """How the columns of a file differ from the features of an info, if they do."""
    for name, feature in features.items():
        if feature["dtype"] == "video":
            continue
        if name not in schema.names:
            return f"there is no column {name}"
        kind, size = schema.field(name).type, feature["shape"][0] if len(feature["shape"]) == 1 else None
        leaf = kind
        while pa.types.is_list(leaf) or pa.types.is_large_list(leaf) or pa.types.is_fixed_size_list(leaf):
            if pa.types.is_fixed_size_list(leaf) and size is not None and leaf.list_size != size:
                return f"{name} has {leaf.list_size} numbers, not {size}"
            leaf = leaf.value_type
        if (feature["dtype"] == "image") != pa.types.is_struct(leaf) or not _alike(leaf, feature["dtype"]):
            return f"{name} is {kind}, not {feature['dtype']}"
    extra = [name for name in schema.names if name not in features]
    return f"nothing tells what its column {extra[0]} is" if extra else None


def _alike(leaf: pa.DataType, dtype: str) -> bool:
    try:
        return dtype == "image" or leaf == pa.type_for_alias(dtype)
    except ValueError:
        return False


def rebuild_info(
    root: Path, files: Sequence[ScannedFile], embodiment: EmbodimentSpec | None, fps: float
) -> dict[str, Any]:
    """An info from the columns, the first images and the videos of a dataset; only names of vectors may be lost.

    Args:
        root: Folder of the dataset.
        files: Its readable data files.
        embodiment: The robot, where RoboMem wrote it.
        fps: Ticks per second of the timestamps.
    """
    schema = files[0].schema if files else pa.schema([])
    features = {field.name: _feature(root, files[0], field) for field in schema}
    for folder in sorted((root / "videos").glob("*")):
        if feature := _video_feature(folder):
            features[folder.name] = feature
    if embodiment:
        names = {"observation.state": embodiment.proprio.names, "action": embodiment.action.names}
        features |= {key: {**features[key], "names": list(value)} for key, value in names.items() if key in features}
        order = [image_feature(camera.name) for camera in embodiment.cameras]
        features = {key: features[key] for key in order if key in features} | features
    video = any(feature["dtype"] == "video" for feature in features.values())
    return {
        "codebase_version": "v3.0",
        "fps": round(fps),
        "features": features,
        "total_episodes": 0,
        "total_frames": 0,
        "total_tasks": 0,
        "chunks_size": form.FILES_PER_CHUNK,
        "data_files_size_in_mb": form.FILE_MB,
        "video_files_size_in_mb": form.VIDEO_MB,
        "data_path": form.DATA_PATH,
        "video_path": form.VIDEO_PATH if video else None,
        "robot_type": None,
        "splits": {},
    }


def _feature(root: Path, scanned: ScannedFile, field: pa.Field) -> dict[str, Any]:
    kind = field.type
    if pa.types.is_struct(kind):
        shape = _image_shape(root, scanned, field.name) or [1, 1, 3]
        return {"dtype": "image", "shape": shape, "names": ["height", "width", "channels"]}
    if pa.types.is_fixed_size_list(kind):
        return {"dtype": _alias(kind.value_type), "shape": [kind.list_size], "names": None}
    if pa.types.is_list(kind):
        row = read_segment(root, scanned.segments[0])[field.name][0].as_py()
        return {"dtype": _alias(kind.value_type), "shape": [len(row)], "names": None}
    return {"dtype": _alias(kind), "shape": [1], "names": None}


def _alias(kind: pa.DataType) -> str:
    """The type's name as LeRobot writes it, which is numpy's."""
    return {"float": "float32", "double": "float64"}.get(str(kind), str(kind))


def _image_shape(root: Path, scanned: ScannedFile, name: str) -> list[int] | None:
    for segment in scanned.segments:
        try:
            frame = decode_png(read_segment(root, segment)[name][0].as_py()["bytes"])
        except DAMAGE:
            continue
        if frame is not None:
            return list(frame.shape)
    return None


def _video_feature(folder: Path) -> dict[str, Any] | None:
    import av
    from av.error import FFmpegError

    for path in sorted(folder.glob("*/*.mp4")):
        try:
            with av.open(str(path)) as container:
                stream = container.streams.video[0]
                shape, info = [stream.height, stream.width, 3], {"video.codec": stream.codec.canonical_name}
                return {"dtype": "video", "shape": shape, "names": ["height", "width", "channels"], "info": info}
        except (FFmpegError, OSError, IndexError):
            continue
    return None
