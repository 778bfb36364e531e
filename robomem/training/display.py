"""What a person sees of a run: a progress bar, or a line now and then where there is no terminal."""

import time
from types import TracebackType
from typing import Self

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from robomem.config import TrainConfig
from robomem.training.progress import Meter, Position

_PARTS = 10**6
"""Parts of a run that the bar counts."""
_PERIOD = 30.0
"""Seconds between two lines without a terminal."""


class Display:
    """Shows progress; a context manager."""

    def __init__(self, config: TrainConfig, start: Position) -> None:
        """Show a run from a position on."""
        self._config, self._console = config, Console()
        columns = (
            TextColumn("{task.description}"),
            BarColumn(),
            TaskProgressColumn(),
            TextColumn("{task.fields[told]}"),
        )
        self._bar = Progress(
            *columns,
            TimeElapsedColumn(),
            TimeRemainingColumn(),
            console=self._console,
            disable=not self._console.is_terminal,
        )
        self._task = self._bar.add_task(
            config.name, total=_PARTS, completed=round(_PARTS * start.share(config)), told=""
        )
        self._printed = time.monotonic()

    def update(self, position: Position, meter: Meter) -> None:
        """Show the position and the means since the last line of the metrics."""
        means, share = meter.means(), position.share(self._config)
        told = f"step {position.step}  loss {means['loss']:.4f}  {means['frames_per_s']:.0f} frames/s"
        self._bar.update(self._task, completed=_PARTS * share, told=told)
        if not self._console.is_terminal and time.monotonic() - self._printed > _PERIOD:
            self.tell(f"{self._config.name} {share:4.0%}  {told}")
            self._printed = time.monotonic()

    def tell(self, text: str) -> None:
        """Print a line above the bar."""
        self._console.print(text, highlight=False, soft_wrap=True, markup=False)

    def __enter__(self) -> Self:
        """The display."""
        self._bar.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        """Leave the terminal as it was."""
        self._bar.stop()
