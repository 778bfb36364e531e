"""A plain loop over a TFDS dataset, as its users write it; run as a module it prints what that costs as JSON.

It is a process of its own, as TensorFlow must not enter one that renders.
"""

import json
import sys
import time
from typing import Any


def main() -> None:
    """Read all steps of a dataset `epochs` times: `python -m robomem.bench.plain_tfds FOLDER EPOCHS`."""
    import tensorflow_datasets as tfds

    folder, epochs = sys.argv[1], int(sys.argv[2])
    builder: Any = tfds.builder_from_directory(folder)  # its stubs do not know `split`
    dataset = builder.as_dataset(split="train")
    next(iter(dataset))
    start, cpu, ticks = time.perf_counter(), time.process_time(), 0
    for _ in range(epochs):
        for episode in dataset:
            ticks += sum(1 for _ in tfds.as_numpy(episode["steps"]))
    costs = {"ticks": ticks, "seconds": time.perf_counter() - start, "cpu_seconds": time.process_time() - cpu}
    print(json.dumps(costs))  # noqa: T201


if __name__ == "__main__":
    main()
