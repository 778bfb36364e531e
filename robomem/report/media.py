"""Videos and frames as data URIs."""

import base64
import io
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

import av
import numpy as np
from av.error import FFmpegError
from PIL import Image

from robomem.errors import RobomemError
from robomem.report.model import Camera

SMALL_VIDEO, LARGEST_VIDEO = 300_000, 2_000_000
"""Bytes: a file above the first is encoded again, and shown as a strip of frames if it is still above the second."""
WIDTH = 512
"""Pixels of a video that is encoded again."""
PLAYABLE = {"h264", "av1", "libdav1d", "vp9", "vp8"}
"""Decoders of what browsers play; of their pixel formats, 4:2:0."""
STRIP_FRAMES = 8
STRIP_HEIGHT = 112
"""Pixels."""


@dataclass(frozen=True)
class Clip:
    """A video, or a strip of its frames."""

    uri: str
    is_video: bool
    width: int
    height: int


def load_clip(path: Path, fix: str) -> Clip:
    """Read a video for the page.

    Raises:
        RobomemError: the file is not a video.
    """
    try:
        with closing(av.open(str(path))) as container:
            context = container.streams.video[0].codec_context
            playable = context.name in PLAYABLE and (context.pix_fmt or "").endswith("420p")
            size = context.width, context.height
        data = path.read_bytes()
        if not playable or len(data) > SMALL_VIDEO:
            data, size = encode_again(path)
        if len(data) <= LARGEST_VIDEO:
            return Clip(data_uri(data, "video/mp4"), True, *size)
        return strip(path)
    except (FFmpegError, IndexError, OSError) as error:
        raise RobomemError(f"{path} is not a readable video ({error}); {fix}") from error


def encode_again(path: Path) -> tuple[bytes, tuple[int, int]]:
    """A smaller H.264 file of the same frames, and its width and height."""
    buffer = io.BytesIO()
    with closing(av.open(str(path))) as source, closing(av.open(buffer, "w", format="mp4")) as target:
        stream = source.streams.video[0]
        width = min(WIDTH, stream.width // 2 * 2)
        height = round(stream.height * width / stream.width / 2) * 2
        smaller = target.add_stream("libx264", rate=stream.average_rate, options={"crf": "27", "preset": "medium"})
        smaller.width, smaller.height, smaller.pix_fmt = width, height, "yuv420p"
        for frame in source.decode(stream):
            target.mux(smaller.encode(frame.reformat(width=width, height=height, format="yuv420p")))
        target.mux(smaller.encode())
        size = width, height
    return buffer.getvalue(), size


def strip(path: Path) -> Clip:
    """Equally spaced frames of a video side by side."""
    with closing(av.open(str(path))) as container:
        frames = [frame.to_image() for frame in container.decode(video=0)]
    picked = [frames[i] for i in np.linspace(0, len(frames) - 1, min(STRIP_FRAMES, len(frames))).round().astype(int)]
    width = round(picked[0].width * STRIP_HEIGHT / picked[0].height)
    picture = Image.new("RGB", (width * len(picked), STRIP_HEIGHT))
    for index, frame in enumerate(picked):
        picture.paste(frame.resize((width, STRIP_HEIGHT)), (index * width, 0))
    buffer = io.BytesIO()
    picture.quantize(256).save(buffer, "PNG", optimize=True)
    return Clip(data_uri(buffer.getvalue(), "image/png"), False, *picture.size)


def load_frames(paths: Sequence[Path], cameras: Sequence[Camera], fix: str) -> Mapping[str, np.ndarray]:
    """Read pictures that show all cameras side by side.

    Args:
        paths: Pictures of one size.
        cameras: From left to right; where they do not fill the width, equal squares are numbered instead.
        fix: What to do about a damaged file.

    Returns:
        By camera, (T, Y, X, 3) uint8.

    Raises:
        RobomemError: a file is not a picture.
    """
    pictures = []
    for path in paths:
        try:
            pictures.append(np.asarray(Image.open(path).convert("RGB")))
        except OSError as error:
            raise RobomemError(f"{path} is not a readable picture ({error}); {fix}") from error
    frames = np.stack(pictures)
    height, width = frames.shape[1:3]
    widths = [round(camera.width * height / camera.height / 2) * 2 for camera in cameras]
    names = [camera.name for camera in cameras]
    if sum(widths) != width:
        widths = [height] * (width // height) or [width]
        names = [f"camera {index + 1}" for index in range(len(widths))]
    edges = np.cumsum([0, *widths])
    return {name: frames[:, :, a:b] for name, a, b in zip(names, edges[:-1], edges[1:], strict=True)}


def data_uri(data: bytes, kind: str) -> str:
    """Bytes as a URI of a media type."""
    return f"data:{kind};base64,{base64.b64encode(data).decode()}"
