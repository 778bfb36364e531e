"""Frames of an episode as a video file, such that each can be addressed by its number and none is reordered."""

import io
import os
from contextlib import closing
from fractions import Fraction
from typing import Any

import av
import numpy as np
from av.error import FFmpegError
from jaxtyping import UInt8
from numpy import ndarray

from robomem.datasets.config import FrameCodec
from robomem.errors import RobomemError

_KEYFRAMES = 2
"""Frames from one keyframe to the next, as in LeRobot: more would be smaller and slower to seek in."""
_ENCODERS = {"h264": "libx264", "av1": "libsvtav1"}
_OPTIONS = {"h264": {"preset": "veryfast", "bf": "0"}, "av1": {"preset": "10", "svtav1-params": "lp=1"}}
"""One thread and no reordering: episodes are encoded side by side, and no frame waits for a later one."""


def encode_video(frames: UInt8[ndarray, "T Y X 3"], fps: int, codec: FrameCodec) -> bytes:
    """An mp4 file of RGB frames.

    Args:
        frames: At least one, of an even height and width, as chroma has half of both.
        fps: Frames per second.
        codec: One of videos.

    Raises:
        RobomemError: the size is odd, or the codec refuses it or is not in this build of FFmpeg.
    """
    height, width = frames.shape[1:3]
    if height % 2 or width % 2:
        raise RobomemError(f"frames of {width} x {height} have an odd size, which {codec.codec} cannot store; use png")
    os.environ.setdefault("SVT_LOG", "1")  # The encoder of AV1 otherwise prints its settings for every episode.
    file = io.BytesIO()
    options = {"crf": str(codec.crf), "g": str(_KEYFRAMES), **_OPTIONS[codec.codec]}
    try:
        with av.open(file, "w", format="mp4") as container:
            stream: Any = container.add_stream(_ENCODERS[codec.codec], rate=Fraction(fps), options=options)
            stream.height, stream.width, stream.pix_fmt = height, width, "yuv420p"
            stream.codec_context.thread_count = 1
            for frame in frames:
                container.mux(stream.encode(av.VideoFrame.from_ndarray(np.ascontiguousarray(frame), format="rgb24")))
            container.mux(stream.encode())
    except (FFmpegError, ValueError) as error:
        raise RobomemError(f"frames of {width} x {height} cannot be stored as {codec} ({error}); use png") from error
    return file.getvalue()


def decode_video(data: bytes, like: UInt8[ndarray, "T Y X 3"]) -> UInt8[ndarray, "T Y X 3"]:
    """RGB frames of an mp4 file.

    Raises:
        RobomemError: their number or size is not that of `like`, which was encoded.
    """
    frames = _decode_all(data)
    if frames.shape != like.shape:
        raise RobomemError(f"a video was encoded with frames of shape {frames.shape}, not {like.shape}; use png")
    return frames


def _decode_all(data: bytes) -> UInt8[ndarray, "T Y X 3"]:
    with closing(av.open(io.BytesIO(data), "r")) as container:
        return np.stack([frame.to_ndarray(format="rgb24") for frame in container.decode(video=0)])


def video_info(height: int, width: int, fps: int, codec: FrameCodec) -> dict[str, Any]:
    """What LeRobot notes of a video feature in `meta/info.json`."""
    return {
        "video.height": height,
        "video.width": width,
        "video.codec": codec.codec,
        "video.pix_fmt": "yuv420p",
        "video.fps": fps,
        "video.channels": 3,
        "video.g": _KEYFRAMES,
        "video.crf": codec.crf,
        "has_audio": False,
        "is_depth_map": False,
    }
