"""Progress of long jobs that count something."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager


@contextmanager
def counting(title: str, total: int | None = None) -> Iterator[Callable[..., None]]:
    """A bar with the time left, where there is a terminal; and what tells it how many are done, and of how many."""
    import rich.progress as bars
    from rich.console import Console

    console = Console()
    columns = (bars.TextColumn("{task.description}"), bars.BarColumn(), bars.MofNCompleteColumn())
    times = (bars.TimeElapsedColumn(), bars.TimeRemainingColumn())
    with bars.Progress(*columns, *times, console=console, disable=not console.is_terminal) as bar:
        task = bar.add_task(title, total=total)
        yield lambda done, total=total: bar.update(task, completed=done, total=total)
