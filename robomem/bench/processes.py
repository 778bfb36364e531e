"""What a process and all that it started take."""

import os
from collections.abc import Callable
from contextlib import suppress

import psutil


def resident_mib(pid: int | None = None) -> float:
    """Memory that they hold now, in MiB; this process by default."""
    return _total(pid, lambda process: process.memory_info().rss) / 2**20


def cpu_seconds(pid: int | None = None) -> float:
    """Processor time that they took so far, those that have ended left out; this process by default."""
    return _total(pid, lambda process: sum(process.cpu_times()[:2]))


def _total(pid: int | None, measure: Callable[[psutil.Process], float]) -> float:
    total = 0.0
    with suppress(psutil.NoSuchProcess):
        own = psutil.Process(pid or os.getpid())
        for process in (own, *own.children(recursive=True)):
            with suppress(psutil.NoSuchProcess):
                total += measure(process)
    return total
