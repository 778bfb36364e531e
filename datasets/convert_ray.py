"""Encodes episodes on a Ray cluster; every machine of it sees the dataset under the same path."""

import logging
from collections.abc import Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from functools import cache
from pathlib import Path

from robomem.datasets.config import FrameCodec
from robomem.datasets.convert import Encoders
from robomem.datasets.encoding import EncodedEpisode
from robomem.datasets.open import open_source
from robomem.datasets.source import EpisodeSource
from robomem.errors import RobomemError

LOCAL = "local"
"""Address that starts a cluster of this machine alone."""

_open = cache(open_source)


@contextmanager
def encoding_cluster(root: Path, mapping: str, codec: FrameCodec, address: str) -> Iterator[Encoders]:
    """Workers of a Ray cluster that read and encode; each opens the dataset once.

    Args:
        root: Folder of the dataset.
        mapping: Its schema mapping.
        codec: How frames are stored.
        address: Of the cluster's head, such as `10.0.0.1:6379`, `auto` for that of this machine, or `local`.

    Raises:
        RobomemError: Ray is not installed or there is no cluster at the address; from `result` of an encoding, what
            was raised while reading the episode.
    """
    try:
        import ray
    except ImportError as error:
        raise RobomemError("Ray is not installed; install it with `pip install 'robomem[ray]'`") from error
    try:
        if address == LOCAL:
            ray.init(LOCAL, include_dashboard=False, log_to_driver=False, logging_level=logging.ERROR)
        else:
            ray.init(address, log_to_driver=False, logging_level=logging.ERROR)
    except (ConnectionError, ValueError) as error:
        raise RobomemError(f"there is no Ray cluster at {address} ({error}); start one with `ray start`") from error
    work, place = ray.remote(_encode), str(root.resolve())

    def begin(position: int) -> "Future[EncodedEpisode]":
        return _raising_causes(work.remote(place, mapping, position, codec).future())

    try:
        yield Encoders(codec, begin, ahead=2 * int(ray.cluster_resources().get("CPU", 1)))
    finally:
        ray.shutdown()


def _encode(root: str, mapping: str, position: int, codec: FrameCodec) -> EncodedEpisode:
    """Runs in a worker."""
    source: EpisodeSource = _open(root, mapping=mapping)
    return source.encoded(position, codec)


def _raising_causes(work: "Future[EncodedEpisode]") -> "Future[EncodedEpisode]":
    """A future that raises what the worker did, not Ray's report of it."""
    from ray.exceptions import RayTaskError

    future: Future[EncodedEpisode] = Future()

    def settle(done: "Future[EncodedEpisode]") -> None:
        error = done.exception()
        if error is None:
            future.set_result(done.result())
        else:
            future.set_exception(error.cause if isinstance(error, RayTaskError) else error)

    work.add_done_callback(settle)
    return future
