"""Sources and mappings for the tests of RLDS."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

from dataset_samples import EMBODIMENT, make_episode, vector_spec

from robomem.datasets.config import FrameCodec
from robomem.datasets.encoding import EncodedEpisode, encode
from robomem.datasets.mapping import SchemaMapping, VectorMapping
from robomem.episode import Episode
from robomem.spec import EmbodimentSpec

COUNT = 12
SHARD_BYTES = 9000
"""Three shards of the samples."""
RELEASED = replace(
    EMBODIMENT,
    cameras=(replace(EMBODIMENT.cameras[0], name="top"), replace(EMBODIMENT.cameras[1], name="wrist")),
)
MIKASA = SchemaMapping(
    name="mikasa_rlds",
    format="rlds",
    robot_type="mikasa_dataset",
    cameras={"top": "observation/image", "wrist": "observation/wrist_image"},
    proprio=VectorMapping(keys=("observation/proprio",), spec=EMBODIMENT.proprio),
    action=VectorMapping(keys=("action",), spec=EMBODIMENT.action),
    instruction="language_instruction",
    period=0.05,
    reward="reward",
    success=True,
)
BRIDGE = SchemaMapping(
    name="bridge_rlds",
    format="rlds",
    robot_type="bridge*|kitch*",
    cameras={"side": "observation/image_1", "front": "observation/image_0"},
    proprio=VectorMapping(keys=("observation/gripper", "observation/state"), spec=vector_spec("q", 5)),
    action=VectorMapping(keys=("action",), spec=vector_spec("a", 3)),
    instruction="observation/natural_language_instruction",
    period=0.2,
)


@dataclass
class Samples:
    """A source of the first `count` sample episodes, with the cameras' names of an embodiment."""

    embodiment: EmbodimentSpec
    count: int = COUNT
    before: Callable[[int], None] = lambda position: None
    """Called before an episode is given."""

    @property
    def provenance(self) -> dict[str, Any]:
        return {"made_by": "test", "grid": [1, 2.5]}

    @property
    def indices(self) -> tuple[int, ...]:
        return tuple(range(self.count))

    @property
    def lengths(self) -> tuple[int, ...]:
        return tuple(len(make_episode(seed)) for seed in self.seeds)

    @property
    def seeds(self) -> tuple[int, ...]:
        return tuple(4242424242 + i for i in self.indices)

    @property
    def successes(self) -> tuple[bool, ...]:
        return (True,) * self.count

    codec = FrameCodec()

    def encoded(self, position: int, codec: FrameCodec) -> EncodedEpisode:
        return encode(self[position], self.embodiment, codec)

    def __len__(self) -> int:
        return self.count

    def __getitem__(self, position: int) -> Episode:
        self.before(position)
        episode = make_episode(self.seeds[position])
        names = [camera.name for camera in self.embodiment.cameras]
        return replace(episode, images=dict(zip(names, episode.images.values(), strict=True)))

    def __iter__(self) -> Iterator[Episode]:
        return (self[position] for position in range(len(self)))

    def without_images(self, position: int) -> Episode:
        return replace(self[position], images={})
