"""TensorFlow in a process of its own, which works for this one; run as a module it is that process.

TensorFlow crashes a software renderer in the same process and takes what it can get of a GPU's memory, so nothing else
imports it, and its process sees no GPU.
"""

import atexit
import functools
import importlib.util
import json
import multiprocessing
import os
import select
import subprocess
import sys
import tempfile
import traceback
from collections.abc import Callable, Mapping
from contextlib import suppress
from multiprocessing.connection import Connection
from pathlib import Path
from threading import Lock, Thread
from typing import IO, Any

import numpy as np
from numpy import ndarray

from robomem.errors import RobomemError

_ENVIRONMENT = {"CUDA_VISIBLE_DEVICES": "", "TF_CPP_MIN_LOG_LEVEL": "2"}

Answer = tuple[Any, dict[str, ndarray]]
"""A JSON value and arrays."""


class TensorFlowProcess:
    """Started by the first call, anew if it died since; it ends with this process, however that ends."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._owner = 0

    def call(self, dataset: Path, method: str, arrays: Mapping[str, ndarray] | None = None, **arguments: Any) -> Answer:
        """What a method of the process returns; calls of several threads follow one another.

        Args:
            dataset: What it is about, for messages.
            method: One of `RldsDecoder` or `RldsEncoder`.
            arrays: Passed on as its first argument, if there are any.
            arguments: JSON values.

        Raises:
            RobomemError: the method raised one, the process died, or TensorFlow is not installed.
        """
        with self._lock:
            if self._process is None or self._owner != os.getpid():  # a fork must not share the pipe
                self._start()
            try:
                _send(self._pipe, {"method": method, "arguments": arguments}, arrays or {})
                answer, found = _receive(self._pipe)
            except (EOFError, ConnectionError) as error:
                raise self._death(dataset) from error
            except BaseException:
                self.close()  # its answer would be taken for that to the next call
                raise
        if "error" in answer:
            raise RobomemError(answer["error"])
        if "traceback" in answer:
            raise RuntimeError(f"in the TensorFlow process:\n{answer['traceback']}")
        return answer["value"], found

    @property
    def pid(self) -> int | None:
        """The number of the process, if it was started."""
        return self._process.pid if self._process else None

    def close(self) -> None:
        """End the process."""
        if self._process is None or self._owner != os.getpid():
            return
        self._pipe.close()  # the process sees the end of its pipe and leaves
        self._errors.close()
        try:
            self._process.wait(timeout=5)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._process = None

    def _start(self) -> None:
        if importlib.util.find_spec("tensorflow_datasets") is None:
            raise RobomemError("RLDS needs TensorFlow, which is not installed; run `make setup`, or add robomem[rlds]")
        self._pipe, theirs = multiprocessing.Pipe()
        self._errors: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115 (closed with the process)
        command = [sys.executable, "-P", "-m", "robomem.datasets.rlds_process", str(theirs.fileno()), str(os.getpid())]
        self._process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=self._errors,
            stderr=self._errors,
            pass_fds=[theirs.fileno()],
            env={**os.environ, **_ENVIRONMENT},
            process_group=0,  # Ctrl-C is for this process alone
        )
        self._owner = os.getpid()
        theirs.close()

    def _death(self, dataset: Path) -> RobomemError:
        assert self._process is not None
        code = self._process.wait(timeout=5)
        self._errors.seek(0)
        lines = self._errors.read().decode(errors="replace").split("\n")
        last = next((line.strip() for line in reversed(lines) if line.strip()), "killed, or out of memory")
        self.close()
        return RobomemError(
            f"the TensorFlow process died with exit code {code} while it worked on {dataset} ({last[:200]}); what was "
            "finished is kept: run the same command again, with more free memory if that was short"
        )


@functools.cache
def tensorflow_process() -> TensorFlowProcess:
    """The process that everything here shares, since each takes a gigabyte of memory and seconds to start."""
    process = TensorFlowProcess()
    atexit.register(process.close)
    return process


def _send(pipe: Connection, head: Any, arrays: Mapping[str, ndarray]) -> None:
    described = [(name, array.dtype.str, array.shape) for name, array in arrays.items()]
    pipe.send_bytes(json.dumps({"head": head, "arrays": described}).encode())
    for array in arrays.values():
        if array.size:
            pipe.send_bytes(_bytes(np.ascontiguousarray(array)))


def _receive(pipe: Connection) -> Answer:
    message = json.loads(pipe.recv_bytes())
    arrays = {name: np.empty(shape, dtype) for name, dtype, shape in message["arrays"]}
    for array in arrays.values():
        if array.size:
            pipe.recv_bytes_into(_bytes(array))
    return message["head"], arrays


def _bytes(array: ndarray) -> memoryview:
    return array.reshape(-1).view(np.uint8).data


def main() -> None:
    """Answer the calls of the process that started this one until it closes the pipe or ends."""
    handle, parent = map(int, sys.argv[1:])
    Thread(target=_leave_with, args=(parent,), daemon=True).start()
    from robomem.datasets.rlds_decoding import RldsDecoder
    from robomem.datasets.rlds_encoding import RldsEncoder

    decoder, encoder = RldsDecoder(), RldsEncoder()
    methods = {method.__name__: method for method in (*decoder.methods, *encoder.methods)}
    pipe = Connection(handle)
    while True:
        try:
            request, arrays = _receive(pipe)
            answer, found = _answer(methods[request["method"]], request["arguments"], arrays)
            _send(pipe, answer, found)
        except (EOFError, ConnectionError):
            os._exit(0)  # TensorFlow takes its time to end in order


def _answer(method: Callable[..., Answer], arguments: dict[str, Any], arrays: dict[str, ndarray]) -> Answer:
    try:
        value, found = method(arrays, **arguments) if arrays else method(**arguments)
    except RobomemError as error:
        return {"error": str(error)}, {}
    except Exception:
        return {"traceback": traceback.format_exc()}, {}
    return {"value": value}, found


def _leave_with(parent: int) -> None:
    """End this process with its parent, also while TensorFlow is at work or a fork of the parent holds the pipe."""
    with suppress(ProcessLookupError):
        select.select([os.pidfd_open(parent)], [], [])
    os._exit(1)


if __name__ == "__main__":
    main()
