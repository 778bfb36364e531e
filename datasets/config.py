"""Settings of the training data; importing them loads no torch."""

import math
from dataclasses import dataclass, field
from pathlib import Path

from robomem.datasets.augment import EpisodeAugmentation
from robomem.errors import RobomemError

CODECS = ("png", "h264", "av1")
"""`png` loses nothing; the others are videos, one of each camera."""
_CRF = {"h264": 18, "av1": 30}


@dataclass(frozen=True, kw_only=True)
class FrameCodec:
    """How the frames of a recorded dataset are stored."""

    codec: str = "png"
    """`png`, which loses nothing, or a video of each camera: `h264`, or `av1`, which is smaller and slower."""
    crf: int | None = None
    """Of videos: 0 is the best quality and the largest file; by default 18 for `h264`, and 30 for `av1`, which looks
    the same."""

    def __post_init__(self) -> None:
        """Check the ranges."""
        if self.codec not in CODECS:
            raise RobomemError(f"frames.codec={self.codec} is unknown; choose {', '.join(CODECS)}")
        if self.crf is None:
            object.__setattr__(self, "crf", _CRF.get(self.codec))
        elif not self.is_video:
            raise RobomemError(f"frames.crf={self.crf} is of videos; choose frames.codec=h264 or av1, or leave it out")
        elif not 0 <= self.crf <= 51:
            raise RobomemError(f"frames.crf={self.crf} must be from 0 to 51")

    @property
    def is_video(self) -> bool:
        """Whether it stores videos, which lose a little."""
        return self.codec != "png"

    def __str__(self) -> str:
        """Name and quality."""
        return f"{self.codec} of crf {self.crf}" if self.is_video else self.codec


@dataclass(frozen=True, kw_only=True)
class MixedIn:
    """A further dataset of the same robot."""

    root: str = "???"
    """Folder of the dataset."""
    weight: float = 1.0
    """How often an epoch visits each of its episodes, in the mean."""

    def __post_init__(self) -> None:
        """Check the range."""
        if not 0 < self.weight < math.inf:
            raise RobomemError(f"data.mix: the weight {self.weight} of {self.root} must be positive and finite")


@dataclass(frozen=True, kw_only=True)
class DataConfig:
    """Which episodes a policy trains on, and how they are batched."""

    root: str = "???"
    """Folder of the dataset."""
    mix: list[MixedIn] = field(default_factory=list)
    """Further datasets, `[{root: FOLDER, weight: 0.5}, ...]`; episodes of `root` are visited once in an epoch."""
    mapping: str = "auto"
    """What the fields of a dataset of others mean: `auto` takes the only one of `configs/mapping` that fits; otherwise
    the name of one of them, or the path of a YAML file."""
    cache_gib: float = 4.0
    """Memory for decoded episodes in GiB; with the whole dataset in it every frame is decoded once."""
    cache_features: bool = False
    """Let a frozen encoder see every frame only once, and train on its features, which are kept on the disk."""
    features_root: str | None = None
    """Folder of the features of encoders; by default beside the dataset, `.features` added to its name."""
    batch_size: int = 16
    """Lanes per process: episodes that are seen side by side."""
    window: int = 16
    """Ticks of each lane in a training step."""
    augmentation: EpisodeAugmentation = field(default_factory=EpisodeAugmentation)
    """Changes that are the same through an episode."""

    def __post_init__(self) -> None:
        """Check the ranges."""
        for name in ("batch_size", "window"):
            if getattr(self, name) < 1:
                raise RobomemError(f"data.{name}={getattr(self, name)} must be positive")
        if not 0 <= self.cache_gib < math.inf:
            raise RobomemError(f"data.cache_gib={self.cache_gib} must be finite and not negative; 0 keeps no episode")
        if not self.root:
            raise RobomemError("data.root names no folder; give that of a dataset, such as `robomem collect` makes")
        if self.cache_features:
            self.augmentation.require_recorded_frames()

    @property
    def features_folder(self) -> Path:
        """Where features of encoders are kept."""
        return Path(self.features_root or f"{Path(self.root).resolve()}.features")

    @property
    def cache_bytes(self) -> int:
        """Memory for decoded episodes in bytes."""
        return int(self.cache_gib * 2**30)
