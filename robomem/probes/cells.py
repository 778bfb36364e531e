"""One cell of the table: a probe, a module and a seed; measured once and kept."""

import re
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from robomem.errors import RobomemError
from robomem.files import read_json, write_json
from robomem.probes import PROBES

if TYPE_CHECKING:
    from robomem.probes.base import Probe, Report
    from robomem.probes.learn import Budget

TEST_SEED = 1_000_000
"""Added to the seed of a cell for its test episodes."""


@dataclass(frozen=True)
class Cell:
    """What is measured at once."""

    probe: str
    module: str
    seed: int

    def __str__(self) -> str:
        """As the progress bar shows it."""
        return f"{self.probe} {self.module} seed {self.seed}"

    def path(self, folder: Path) -> Path:
        """Of its file in a folder of results."""
        return folder / "cells" / self.probe / f"{re.sub('[^-+=.,a-z0-9_]', '-', self.module)}-{self.seed}.json"

    def is_finished(self, folder: Path, budget: "Budget") -> bool:
        """Whether its result is there.

        Raises:
            RobomemError: it is there, but was measured with other settings.
        """
        path = self.path(folder)
        if not path.exists():
            return False
        found, mine = read_json(path)["settings"], settings(self, budget)
        if different := sorted(key for key in {*found, *mine} if found.get(key) != mine.get(key)):
            key = different[0]
            raise RobomemError(
                f"{path} was measured with {key}={found.get(key)}, now {key}={mine.get(key)}; "
                "remove it or set another --output"
            )
        return True


def settings(cell: Cell, budget: "Budget") -> dict[str, Any]:
    """What determines a result, beside the code."""
    from robomem.probes.model import module_config

    return {**asdict(budget), "module": module_config(load_probe(cell.probe).group, cell.module)}


def load_probe(name: str) -> "Probe":
    """A probe by its name."""
    module, _, kind = PROBES[name].rpartition(".")
    return getattr(import_module(module), kind)()


def measure(cell: Cell, budget: "Budget", folder: Path, report: "Report") -> Mapping[str, Any]:
    """Train and test, and save the result.

    Args:
        cell: What to measure.
        budget: Of the training.
        folder: Of the results.
        report: Told the share that is done.

    Returns:
        What was saved.
    """
    import torch

    from robomem.probes.learn import train

    probe = load_probe(cell.probe)
    torch.manual_seed(cell.seed)
    model = probe.build(cell.module)
    start = time.process_time()
    steps = train(model, probe, budget, torch.Generator().manual_seed(cell.seed), lambda share: report(share / 2))
    trained = time.process_time()
    model.eval()
    with torch.inference_mode():
        generator = torch.Generator().manual_seed(TEST_SEED + cell.seed)
        outcome = probe.evaluate(model, generator, lambda share: report((1 + share) / 2))
    result = {
        "cell": asdict(cell),
        "settings": settings(cell, budget),
        "parameters": {
            "module": sum(parameter.numel() for parameter in model.subject.parameters()),
            "model": sum(parameter.numel() for parameter in model.parameters()),
        },
        "steps": steps,
        "seconds": {"training": trained - start, "test": time.process_time() - trained},
        **asdict(outcome),
    }
    write_json(cell.path(folder), result)
    return result


def load_cells(folder: Path) -> list[dict[str, Any]]:
    """All finished cells of a folder, in the order of the probes, then by name and seed."""
    results = [read_json(path) for path in sorted((folder / "cells").glob("*/*.json"))]
    order = {name: index for index, name in enumerate(PROBES)}
    return sorted(
        (result for result in results if result["cell"]["probe"] in order),
        key=lambda result: (order[result["cell"]["probe"]], result["cell"]["module"], result["cell"]["seed"]),
    )
