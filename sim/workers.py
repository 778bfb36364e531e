"""Objects that live in processes of their own: a simulator must never share one with a trainer or TensorFlow."""

import multiprocessing
import signal
import traceback
from collections.abc import Callable, Iterable, Iterator, Sequence
from multiprocessing.connection import Connection, wait
from typing import Any

from robomem.errors import RobomemError


class WorkerProcesses:
    """N processes that each build one object and answer calls of its methods.

    Gymnasium's `AsyncVectorEnv` would build one more simulator in the calling process to learn its spaces, and that
    process must stay free of the renderer.
    """

    def __init__(self, build: Callable[[], Any], count: int) -> None:
        """Start the processes; `build` (picklable) runs in each of them before its first call."""
        context = multiprocessing.get_context("spawn")
        self._pipes: list[Connection] = []
        self._processes = []
        # Ctrl-C reaches every process of the terminal; workers, born with it blocked, leave it to this one.
        unblocked = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
        try:
            for index in range(count):
                mine, theirs = context.Pipe()
                process = context.Process(target=_serve, args=(build, theirs), name=f"simulator-{index}", daemon=True)
                process.start()
                theirs.close()
                self._pipes.append(mine)
                self._processes.append(process)
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, unblocked)

    def __len__(self) -> int:
        """Number of processes."""
        return len(self._pipes)

    def call(self, workers: Sequence[int], method: str, arguments: Sequence[tuple[Any, ...]]) -> list[Any]:
        """Call a method in some workers at the same time and return the results in order.

        Raises:
            RobomemError: a worker died; any error that a worker raised is raised here.
        """
        for worker, args in zip(workers, arguments, strict=True):
            self._send(worker, method, args)
        return [self._receive(worker) for worker in workers]

    def map(self, method: str, arguments: Iterable[tuple[Any, ...]]) -> Iterator[Any]:
        """Call a method once per tuple of arguments, on whichever worker is free; yields results as they come."""
        todo = iter(arguments)
        busy: set[int] = set()
        for worker, args in zip(range(len(self)), todo, strict=False):
            self._send(worker, method, args)
            busy.add(worker)
        while busy:
            ready = wait([self._pipes[worker] for worker in busy])
            for worker in [w for w in busy if self._pipes[w] in ready]:
                result = self._receive(worker)
                args = next(todo, None)
                if args is None:
                    busy.remove(worker)
                else:
                    self._send(worker, method, args)
                yield result

    def close(self) -> None:
        """End the processes."""
        for pipe in self._pipes:
            pipe.close()  # the worker sees the end of its pipe and leaves
        for process in self._processes:
            process.join(timeout=5)
            if process.is_alive():
                process.kill()

    def _send(self, worker: int, method: str, args: tuple[Any, ...]) -> None:
        try:
            self._pipes[worker].send((method, args))
        except ConnectionError as error:
            raise self._death(worker) from error

    def _receive(self, worker: int) -> Any:
        try:
            reply = self._pipes[worker].recv()
        except (EOFError, ConnectionError) as error:
            raise self._death(worker) from error
        if isinstance(reply, BaseException):
            raise reply
        return reply

    def _death(self, worker: int) -> RobomemError:
        process = self._processes[worker]
        process.join(timeout=5)
        return RobomemError(
            f"simulator process {worker} died with exit code {process.exitcode} (killed, out of memory, or a driver"
            " crash: see `robomem doctor`); what was finished is saved: run the same command again to continue, with"
            " fewer sim.workers if memory is short"
        )


def _serve(build: Callable[[], Any], pipe: Connection) -> None:
    """Loop of a worker process: build at the first call, then answer until the pipe closes."""
    built = None
    while True:
        try:
            method, args = pipe.recv()
        except (EOFError, ConnectionError):
            return
        try:
            built = built or build()
            reply = getattr(built, method)(*args)
        except RobomemError as error:
            reply = error
        except Exception as error:
            reply = RuntimeError(f"{error}\n{traceback.format_exc()}")
        try:
            pipe.send(reply)
        except ConnectionError:
            return
