"""Processes of simulators: Ctrl-C is for their owner alone."""

import multiprocessing
import os
import signal
import threading
from contextlib import closing

from robomem.sim.workers import WorkerProcesses


def test_an_interrupt_does_not_reach_a_worker() -> None:
    with closing(WorkerProcesses(threading.Event, 1)) as workers:
        workers.call([0], "is_set", [()])
        (child,) = multiprocessing.active_children()
        interrupt = threading.Timer(0.1, os.kill, (child.pid, signal.SIGINT))
        interrupt.start()
        assert workers.call([0], "wait", [(0.5,)]) == [False]
        interrupt.join()
        assert workers.call([0], "is_set", [()]) == [False]
    assert signal.SIGINT not in signal.pthread_sigmask(signal.SIG_BLOCK, ())
