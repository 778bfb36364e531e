"""What the TensorFlow process does to write RLDS datasets; only that process builds the class."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from numpy import ndarray

from robomem.datasets import rlds_format as form
from robomem.datasets.rlds_process import Answer
from robomem.errors import RobomemError


class RldsEncoder:
    """Writes one shard after another of a dataset, then its description."""

    def __init__(self) -> None:
        import tensorflow as tf
        import tensorflow_datasets as tfds

        self._tf, self._tfds = tf, tfds
        self._writers: dict[str, tuple[Any, Any]] = {}
        self.methods = (self.begin_shard, self.add_episode, self.end_shard, self.describe_shards)

    def begin_shard(self, path: str, images: dict[str, list[int]], proprio: int, action: int) -> Answer:
        """Open a new file; `images` has height and width of the frames by field, `proprio` and `action` are sizes."""
        with self._writing(path):
            self._writers[path] = self._tf.io.TFRecordWriter(path), self._layout(images, proprio, action)
        return None, {}

    def add_episode(self, arrays: dict[str, ndarray], path: str, instruction: str, episode: dict[str, Any]) -> Answer:
        """Append an episode to an open file.

        Args:
            arrays: Columns by field; for each image `png/FIELD`, all frames one after another, and `bytes/FIELD`, how
                long each of them is.
            path: The file.
            instruction: That of all steps.
            episode: The fields of `episode_metadata`.
        """
        images = {}
        for field in [name.removeprefix("png/") for name in arrays if name.startswith("png/")]:
            frames = np.split(arrays.pop(f"png/{field}"), arrays.pop(f"bytes/{field}").cumsum()[:-1])
            images[field] = [frame.tobytes() for frame in frames]
        last = np.arange(len(arrays[form.ACTION])) == len(arrays[form.ACTION]) - 1
        steps = {
            "observation": {**images, "proprio": arrays.pop("proprio")},
            **arrays,
            "discount": np.ones(len(last), np.float32),
            "is_first": np.arange(len(last)) == 0,
            "is_last": last,
            "is_terminal": last & arrays[form.SUCCESS],
            form.INSTRUCTION: [instruction] * len(last),
        }
        writer, features = self._writers[path]
        with self._writing(path):
            writer.write(features.serialize_example({form.STEPS: steps, form.EPISODE: episode}))
        return None, {}

    def end_shard(self, path: str) -> Answer:
        """Close a file and return how many episodes are read back from it."""
        writer, _ = self._writers.pop(path)
        with self._writing(path):
            writer.close()
            count = sum(1 for _ in self._tf.data.TFRecordDataset(path))
        return count, {}

    def describe_shards(
        self, folder: str, version: str, lengths: list[int], images: dict[str, list[int]], proprio: int, action: int
    ) -> Answer:
        """Write `dataset_info.json` and `features.json` beside the finished shards of split `train`."""
        size = sum(path.stat().st_size for path in Path(folder).glob(form.SHARDS))
        split = self._tfds.core.SplitInfo(
            name="train", shard_lengths=lengths, num_bytes=size - form.FRAMING * sum(lengths)
        )
        with self._writing(folder):
            self._tfds.folder_dataset.write_metadata(
                data_dir=folder,
                features=self._layout(images, proprio, action),
                split_infos=[split],
                version=version,
                description="Episodes recorded with RoboMem, in RLDS.",
            )
        return None, {}

    def _layout(self, images: dict[str, list[int]], proprio: int, action: int) -> Any:
        features = self._tfds.features
        number, flag = features.Scalar(np.float32), features.Scalar(np.bool_)
        observation = {field: features.Image(shape=(*size, 3), encoding_format="png") for field, size in images.items()}
        steps = {
            "observation": {**observation, "proprio": features.Tensor(shape=(proprio,), dtype=np.float32)},
            form.ACTION: features.Tensor(shape=(action,), dtype=np.float32),
            form.REWARD: number,
            "discount": number,
            **dict.fromkeys(("is_first", "is_last", "is_terminal", form.SUCCESS), flag),
            form.INSTRUCTION: features.Text(),
            # As bytes, since a record has no float64.
            form.CAPTURE_TIME: features.Tensor(shape=(), dtype=np.float64, encoding="bytes"),
        }
        episode = {
            "file_path": features.Text(),
            form.SEED: features.Scalar(np.int64),
            form.PROVENANCE: features.Text(),
        }
        return features.FeaturesDict({form.STEPS: features.Dataset(steps), form.EPISODE: episode})

    @contextmanager
    def _writing(self, path: str) -> Iterator[None]:
        """Name the file in an error of the disk."""
        try:
            yield
        except self._tf.errors.OpError as error:
            raise RobomemError(
                f"cannot write {path} ({error.message}): what was finished is kept; free some space or give another "
                "folder, then run the same command again"
            ) from error
