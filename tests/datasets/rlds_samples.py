"""Run as a script, in a process with TensorFlow, by the tests of RLDS: what other people's programs write and read."""

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

TICKS = {"train": (4, 1, 6, 3), "val": (2,)}


def write_kitchen(data_dir: str) -> None:
    """A dataset in the style of Bridge and OXE, made by a plain TFDS builder."""
    import tensorflow_datasets as tfds

    features = tfds.features

    class Kitchen(tfds.core.GeneratorBasedBuilder):
        VERSION = tfds.core.Version("0.1.0")

        def _info(self) -> tfds.core.DatasetInfo:
            step = {
                "observation": {
                    "image_0": features.Image(shape=(16, 20, 3), encoding_format="jpeg"),
                    "image_1": features.Image(encoding_format="jpeg"),
                    "state": features.Tensor(shape=(4,), dtype=np.float64),
                    "gripper": features.Scalar(np.float32),
                    "natural_language_instruction": features.Text(),
                },
                "action": features.Tensor(shape=(3,), dtype=np.float32),
                "is_first": features.Scalar(np.bool_),
                "is_last": features.Scalar(np.bool_),
            }
            about = {"file_path": features.Text(), "episode_id": features.Scalar(np.int32)}
            whole = features.FeaturesDict({"steps": features.Dataset(step), "episode_metadata": about})
            return tfds.core.DatasetInfo(builder=self, features=whole)

        def _split_generators(self, dl_manager: Any) -> dict[str, Any]:
            return {split: self._generate_examples(split) for split in TICKS}

        def _generate_examples(self, split: str) -> Iterator[tuple[str, dict[str, Any]]]:
            for number, ticks in enumerate(TICKS[split]):
                about = {"file_path": f"/data/{split}/{number}.npy", "episode_id": number}
                yield f"{split}{number}", {"steps": list(_steps(number, ticks)), "episode_metadata": about}

    Kitchen(data_dir=data_dir).download_and_prepare()


def _steps(seed: int, ticks: int) -> Iterator[dict[str, Any]]:
    rng = np.random.default_rng(seed)
    for tick in range(ticks):
        yield {
            "observation": {
                "image_0": rng.integers(0, 256, (16, 20, 3), dtype=np.uint8),
                "image_1": rng.integers(0, 256, (12, 14, 3), dtype=np.uint8),
                "state": rng.normal(size=4),
                "gripper": np.float32(rng.random()),
                "natural_language_instruction": f"put pot {seed} in the sink".encode(),
            },
            "action": rng.normal(size=3).astype(np.float32),
            "is_first": tick == 0,
            "is_last": tick == ticks - 1,
        }


def load_all(name: str, data_dir: str) -> dict[str, np.ndarray]:
    """Split `train` as `tfds.load` reads it: every field of every episode, as `number/path`."""
    import tensorflow_datasets as tfds

    found: dict[str, np.ndarray] = {}
    loaded: Any = tfds.load(name, data_dir=data_dir, split="train")
    for number, episode in enumerate(loaded):
        steps = list(episode["steps"].as_numpy_iterator())
        for path in _paths(steps[0]):
            values = np.array([_at(step, path) for step in steps])
            found[f"{number}/{path}"] = values.astype(str) if values.dtype.kind in "OS" else values
        found |= {f"{number}/about/{k}": np.array(str(v.numpy())) for k, v in episode["episode_metadata"].items()}
    return found


def _paths(step: dict[str, Any], prefix: str = "") -> list[str]:
    nested = [_paths(v, f"{prefix}{k}/") if isinstance(v, dict) else [prefix + k] for k, v in step.items()]
    return [path for paths in nested for path in paths]


def _at(step: Any, path: str) -> Any:
    for name in path.split("/"):
        step = step[name]
    return step


if __name__ == "__main__":
    folder = Path(sys.argv[1])
    write_kitchen(str(folder / "kitchen"))
    np.savez(folder / "kitchen.npz", **load_all("kitchen", str(folder / "kitchen")))  # type: ignore[arg-type]
    np.savez(folder / "ours.npz", **load_all("mikasa_dataset", str(folder / "ours")))  # type: ignore[arg-type]
