"""What a run measures: `metrics.jsonl`, and events for TensorBoard if asked for."""

import json
import sys
from collections.abc import Mapping
from pathlib import Path
from types import ModuleType, TracebackType
from typing import TYPE_CHECKING, Self

from robomem.files import disk_guard, write_atomic

if TYPE_CHECKING:
    from torch.utils.tensorboard.writer import SummaryWriter


class Metrics:
    """Appends lines of measurements; a context manager."""

    def __init__(self, path: Path, step: int, tensorboard: Path | None) -> None:
        """Open the files.

        Args:
            path: The JSON lines.
            step: Steps that the run has done; lines beyond it, which it will write again, are removed.
            tensorboard: Folder of events, if they are wanted.
        """
        with disk_guard(path.parent, "the metrics were not opened"):
            write_atomic(path, "".join(f"{line}\n" for line in _lines_up_to(path, step)).encode())
            self._file = path.open("a")
            self._events = _open_tensorboard(tensorboard, step) if tensorboard else None
        self._folder = path.parent

    def write(self, step: int, values: Mapping[str, float]) -> None:
        """Append the measurements of a step."""
        with disk_guard(self._folder, f"the metrics of step {step} were not saved"):
            self._file.write(json.dumps({"step": step, **values}) + "\n")
            self._file.flush()
            if self._events:
                for name, value in values.items():
                    self._events.add_scalar(name, value, step)

    def __enter__(self) -> Self:
        """The metrics."""
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        """Close the files."""
        self._file.close()
        if self._events:
            self._events.close()


def _lines_up_to(path: Path, step: int) -> list[str]:
    """Whole lines of a file that are not beyond a step."""
    kept = []
    for line in path.read_text().splitlines() if path.exists() else ():
        try:
            if json.loads(line)["step"] > step:
                break
        except (ValueError, KeyError, TypeError):  # torn by a kill or a full disk
            break
        kept.append(line)
    return kept


def _open_tensorboard(folder: Path, step: int) -> "SummaryWriter":
    import tensorboard.compat

    # With this module in place TensorBoard uses its own file access and never imports TensorFlow, which crashes a
    # process that renders.
    name = "tensorboard.compat.notf"
    tensorboard.compat.notf = sys.modules.setdefault(name, ModuleType(name))  # type: ignore[attr-defined]
    from torch.utils.tensorboard.writer import SummaryWriter

    return SummaryWriter(str(folder), purge_step=step + 1)
