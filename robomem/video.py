"""Videos of episodes: all cameras side by side, enlarged, with tick and success written on them."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from fractions import Fraction
from pathlib import Path

import av
import cv2
import numpy as np
from av.error import FFmpegError
from jaxtyping import UInt8
from numpy import ndarray

from robomem.errors import RobomemError
from robomem.files import disk_guard
from robomem.rollout import EpisodeResult

HEIGHT = 384
"""Pixels of a camera's image in a video."""
_BAR = 32
"""Pixels of the line of text below."""


class VideoRecorder:
    """Writes `<seed>.mp4` for some of the episodes of a rollout."""

    def __init__(self, folder: Path, seeds: set[int], fps: float) -> None:
        """Record the episodes of these seeds at a number of ticks per second."""
        self._folder, self._seeds, self._fps = folder, seeds, fps
        self._open: dict[int, VideoWriter] = {}

    def frame(self, seed: int, tick: int, images: Mapping[str, UInt8[ndarray, "Y X 3"]], success: bool) -> None:
        """See `robomem.rollout.Recorder`."""
        if seed not in self._seeds:
            return
        with self._guard(seed):
            if tick == 0:
                self._folder.mkdir(parents=True, exist_ok=True)
                self._open[seed] = VideoWriter(self._folder / f"{seed}.mp4", self._fps)
            self._open[seed].add(caption(side_by_side(images, HEIGHT), f"tick {tick}", success))

    def finish(self, result: EpisodeResult) -> None:
        """See `robomem.rollout.Recorder`."""
        if result.seed in self._seeds:
            with self._guard(result.seed):
                self._open[result.seed].close()
            del self._open[result.seed]

    @contextmanager
    def _guard(self, seed: int) -> Iterator[None]:
        """A full disk becomes a message, and is not filled with half a video."""
        try:
            with disk_guard(self._folder, f"the video of seed {seed} was not saved"):
                yield
        except RobomemError:
            if seed in self._open:
                self._open.pop(seed).discard()
            raise


class VideoWriter:
    """An H.264 file that has its name only once it is complete."""

    def __init__(self, path: Path, fps: float) -> None:
        """Begin a video."""
        self._path, self._temporary = path, path.with_name(f".{path.name}.tmp")
        self._container = av.open(str(self._temporary), "w", format="mp4", options={"movflags": "faststart"})
        self._stream = self._container.add_stream("libx264", rate=Fraction(fps).limit_denominator(1000))
        self._stream.pix_fmt = "yuv420p"
        self._stream.options = {"crf": "18", "preset": "veryfast"}

    def add(self, frame: UInt8[ndarray, "Y X 3"]) -> None:
        """Append a frame of an even number of rows and columns, the same for all frames."""
        self._stream.height, self._stream.width = frame.shape[:2]
        self._container.mux(self._stream.encode(av.VideoFrame.from_ndarray(frame, format="rgb24")))

    def close(self) -> None:
        """Finish the file."""
        self._container.mux(self._stream.encode())
        self._container.close()
        self._temporary.replace(self._path)

    def discard(self) -> None:
        """Leave nothing behind after a failure."""
        with suppress(FFmpegError):
            self._container.close()
        self._temporary.unlink(missing_ok=True)


def side_by_side(images: Mapping[str, UInt8[ndarray, "Y X 3"]], height: int) -> UInt8[ndarray, "Y X2 3"]:
    """All cameras in one row, scaled to a height (pixels stay sharp) and an even total width."""
    scaled = []
    for image in images.values():
        width = round(image.shape[1] * height / image.shape[0] / 2) * 2
        scaled.append(cv2.resize(image, (width, height), interpolation=cv2.INTER_NEAREST))
    return np.concatenate(scaled, axis=1)


def caption(frame: UInt8[ndarray, "Y X 3"], text: str, success: bool) -> UInt8[ndarray, "Y2 X 3"]:
    """A frame with a line of text below it, and whether the episode has succeeded so far."""
    framed = cv2.copyMakeBorder(frame, 0, _BAR, 0, 0, cv2.BORDER_CONSTANT, value=(24, 24, 24))
    place, font = (10, frame.shape[0] + 22), cv2.FONT_HERSHEY_SIMPLEX
    cv2.putText(framed, text, place, font, 0.6, (230, 230, 230), 1, cv2.LINE_AA)
    if success:
        place = (framed.shape[1] - 100, place[1])
        cv2.putText(framed, "success", place, font, 0.6, (90, 220, 120), 1, cv2.LINE_AA)
    return framed
