"""Stop between two steps when asked to, so that nothing is lost."""

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

TERMINATED = 128 + signal.SIGTERM
"""Exit status after SIGTERM, as a shell reports it."""


class Interruption:
    """The first request to stop, if there was one."""

    def __init__(self) -> None:
        """No request so far."""
        self.signal: signal.Signals | None = None

    def handle(self, number: int, frame: FrameType | None) -> None:
        """Take note of a request; one more Ctrl-C stops at once."""
        if self.signal is not None and number == signal.SIGINT:
            raise KeyboardInterrupt
        self.signal = signal.Signals(number)

    def leave(self) -> None:
        """End the program as the signal asked; does nothing if there was none."""
        if self.signal is signal.SIGINT:
            raise KeyboardInterrupt
        if self.signal is not None:
            raise SystemExit(TERMINATED)


@contextmanager
def interruption() -> Iterator[Interruption]:
    """Take SIGINT and SIGTERM as requests to stop (in the main thread; elsewhere they are left alone)."""
    request = Interruption()
    if threading.current_thread() is not threading.main_thread():
        yield request
        return
    before = {number: signal.signal(number, request.handle) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield request
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
