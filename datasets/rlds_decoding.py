"""What the TensorFlow process does to read RLDS datasets; only that process builds the class."""

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
from numpy import ndarray

from robomem.datasets.rlds_format import EPISODE, FEATURES, FRAMING, STEPS, damaged
from robomem.datasets.rlds_process import Answer
from robomem.errors import RobomemError, nearest

_READ_BUFFER, _SCAN_BUFFER = 2**17, 2**22
"""Bytes read at a time: of single records, and of whole shards."""

Parser = Callable[[Any], dict[str, Any]]
"""From a record to tensors by `steps` and `episode_metadata`, each by its field."""


class RldsDecoder:
    """Reads records at their place in a shard; each combination of fields is traced once."""

    def __init__(self) -> None:
        import tensorflow as tf
        import tensorflow_datasets as tfds

        tf.config.set_visible_devices([], "GPU")
        self._tf, self._tfds = tf, tfds
        self._features: dict[str, Any] = {}
        self._parsers: dict[tuple[str, tuple[str, ...], tuple[str, ...]], Parser] = {}
        self.methods = (self.describe, self.scan, self.read, self.bounds)

    def describe(self, folder: str, split: str) -> Answer:
        """Name, version, fields (shape and type) and shards (file and number of episodes) of a dataset."""
        info = self._load(folder)
        splits, features = info.splits, dict(info.features.items())
        if split not in splits:
            raise RobomemError(f"{folder} has no split {split!r}{nearest(split, splits)}")
        if info.file_format.value != "tfrecord":
            raise RobomemError(
                f"{folder} is stored as {info.file_format.value}; convert it with "
                f"`tfds convert_format --dataset_dir={folder} --out_file_format=tfrecord`"
            )
        if not isinstance(features.get(STEPS), self._tfds.features.Dataset):
            raise RobomemError(f"{folder} is not in RLDS: its episodes have no {STEPS}; give another dataset")
        shards = zip(splits[split].filenames, splits[split].shard_lengths, strict=True)
        described = {
            "name": info.name,
            "version": str(info.version),
            STEPS: {path: _described(leaf) for path, leaf in self._leaves(features[STEPS].feature)},
            EPISODE: {path: _described(leaf) for path, leaf in self._leaves(features.get(EPISODE))},
            "shards": list(shards),
        }
        return described, {}

    def scan(self, folder: str, path: str, ticks: str, success: str | None, seed: str | None) -> Answer:
        """Offset, ticks, success and seed of every record of a shard, from these fields of its steps and episode."""
        steps, episode = tuple(filter(None, (ticks, success))), tuple(filter(None, (seed,)))
        parse = self._parser(folder, steps, episode)
        found, offset = [], 0
        with self._reading(path):
            for record in self._tf.data.TFRecordDataset(path, buffer_size=_SCAN_BUFFER):
                values = parse(record)
                succeeded = success and bool(np.any(values[STEPS][success].numpy()))
                number = seed and int(values[EPISODE][seed])
                found.append((offset, len(values[STEPS][ticks]), succeeded, number))
                offset += len(record.numpy()) + FRAMING
        if offset != os.path.getsize(path):
            raise damaged(path, f"its last record, at byte {offset}, is not whole")
        return found, {}

    def read(self, folder: str, path: str, offset: int, steps: list[str], episode: list[str]) -> Answer:
        """Fields of one record: texts as the value, numbers as arrays, named `steps/...` or `episode_metadata/...`."""
        parse = self._parser(folder, tuple(steps), tuple(episode))
        with self._reading(path):
            parsed = parse(self._record(path, offset))
            values = {f"{kind}/{k}": v.numpy() for kind, fields in parsed.items() for k, v in fields.items()}
            texts = {name: _decoded(value) for name, value in values.items() if _is_text(value)}
        return texts, {name: np.asarray(value) for name, value in values.items() if name not in texts}

    def bounds(self, folder: str, paths: list[str], fields: list[str], most: int) -> Answer:
        """Least values, then greatest, of each entry of these fields of the steps of the first `most` episodes."""
        parse, found = self._parser(folder, tuple(fields), ()), dict[str, ndarray]()
        left = most
        for path in paths:
            with self._reading(path):
                for record in self._tf.data.TFRecordDataset(path, buffer_size=_SCAN_BUFFER).take(left):
                    left -= 1
                    for field, value in parse(record)[STEPS].items():
                        rows = value.numpy().astype(np.float64).reshape(len(value), -1)
                        rows = np.concatenate([rows, *([found[field]] if field in found else [])])
                        found[field] = np.stack([rows.min(axis=0), rows.max(axis=0)])
        return None, found

    def _record(self, path: str, offset: int) -> Any:
        """The record at a place of a file, without reading more than a small buffer beyond it."""
        tf = self._tf
        records = tf.raw_ops.TFRecordDatasetV2(
            filenames=[path], compression_type="", buffer_size=_READ_BUFFER, byte_offsets=[offset]
        )
        return tf.data.experimental.from_variant(records, tf.TensorSpec((), tf.string)).take(1).get_single_element()

    def _load(self, folder: str) -> Any:
        """Description of a dataset as it is now on the disk."""
        try:
            info = self._tfds.builder_from_directory(folder).info
            self._features[folder] = info.features
        except Exception as error:  # whatever TFDS makes of a damaged description
            raise damaged(os.path.join(folder, FEATURES), error) from error
        self._parsers = {key: parser for key, parser in self._parsers.items() if key[0] != folder}
        return info

    def _parser(self, folder: str, steps: tuple[str, ...], episode: tuple[str, ...]) -> Parser:
        key = (folder, steps, episode)
        if key not in self._parsers:
            self._parsers[key] = self._trace(*key)
        return self._parsers[key]

    def _trace(self, folder: str, steps: tuple[str, ...], episode: tuple[str, ...]) -> Parser:
        """A function that parses and decodes these fields and no other."""
        tf, features = self._tf, self._tfds.features
        if folder not in self._features:
            self._load(folder)
        whole = self._features[folder]
        leaves = dict(self._leaves(whole[STEPS].feature))
        wanted = {STEPS: features.Dataset({path: leaves[path] for path in steps})}
        if episode:
            leaves = dict(self._leaves(whole[EPISODE]))
            wanted[EPISODE] = features.FeaturesDict({path: leaves[path] for path in episode})
        subset = features.FeaturesDict(wanted)

        @tf.function(input_signature=[tf.TensorSpec((), tf.string)])
        def parse(record: Any) -> dict[str, Any]:
            values = subset.deserialize_example(record)
            return {**values, STEPS: values[STEPS].batch(2**31).get_single_element()}

        return parse

    def _leaves(self, feature: Any, prefix: str = "") -> Iterator[tuple[str, Any]]:
        """The fields of a nest that hold one tensor each, by their paths."""
        if isinstance(feature, self._tfds.features.FeaturesDict):
            for name, inner in feature.items():
                yield from self._leaves(inner, f"{prefix}/{name}".lstrip("/"))
        elif feature is not None and isinstance(feature.shape, tuple):
            yield prefix, feature

    @contextmanager
    def _reading(self, path: str) -> Iterator[None]:
        """Name the file in an error raised while reading it."""
        try:
            yield
        except (self._tf.errors.OpError, IndexError, UnicodeDecodeError, ValueError) as error:
            raise damaged(path, getattr(error, "message", error)) from error


def _described(feature: Any) -> tuple[list[int | None], str]:
    """Shape and type of a field; the type of texts is `text`."""
    dtype = np.dtype(feature.np_dtype)
    return list(feature.shape), "text" if dtype.kind in "OSU" else dtype.name


def _is_text(value: Any) -> bool:
    return isinstance(value, bytes) or (isinstance(value, ndarray) and value.dtype.kind in "OS")


def _decoded(value: Any) -> Any:
    """Strings of a tensor of UTF-8."""
    return value.decode() if isinstance(value, bytes) else [_decoded(entry) for entry in value.tolist()]
