"""The loop: windows in order, the memory carried from one to the next, checkpoints on the way."""

import time
from collections.abc import Callable, Generator, Iterator
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Protocol

from robomem.config import TrainConfig
from robomem.contract import Window
from robomem.errors import NonFiniteError
from robomem.training.display import Display
from robomem.training.interruption import interruption
from robomem.training.learner import Learner, learning_rate
from robomem.training.metrics import Metrics
from robomem.training.progress import Meter, Position
from robomem.training.snapshot import Snapshot
from robomem.training.step import StepSettings, train_step


class Batches(Protocol):
    """Windows of whole episodes in order, a pure function of the pass over the data."""

    def epoch(self, epoch: int, start_step: int = 0) -> Iterator[Window]:
        """The windows of a pass from one on."""
        ...


@dataclass(frozen=True)
class Outputs:
    """Where the results of the loop go."""

    metrics: Metrics
    display: Display
    save: Callable[[Snapshot], Path]
    """Writes a checkpoint and returns its folder."""


def run_loop(
    learner: Learner, batches: Batches, config: TrainConfig, settings: StepSettings, outputs: Outputs, start: Snapshot
) -> Snapshot:
    """Train from a snapshot to the end of the run, or until a signal asks to stop; both end with a checkpoint.

    Raises:
        NonFiniteError: names the step and what is not finite.
        KeyboardInterrupt: SIGINT.
        SystemExit: SIGTERM.
    """
    state, saved = start, start.position.step
    stream = _windows(batches, start.position)
    clock = time.monotonic() - start.position.elapsed
    learner.policy.train()
    with closing(stream), interruption() as request:
        while state.position.share(config) < 1 and request.signal is None:
            state = _advance(learner, next(stream), config, settings, state, clock)
            step, finished = state.position.step, state.position.share(config) == 1
            outputs.display.update(state.position, state.meter)
            if step % config.tracker.every == 0 or finished:
                outputs.metrics.write(step, {"time_s": state.position.elapsed, **state.meter.means()})
                state = replace(state, meter=Meter())
            if step % config.checkpoints.every == 0:
                outputs.save(state)
                saved = step
        if state.position.step > saved:
            outputs.save(state)
        if request.signal is not None:
            outputs.display.tell(f"stopped after step {state.position.step}; the same command goes on from there")
        request.leave()
    return state


Place = tuple[int, int, Window]
"""Pass over the data, number within the pass, window."""


def _windows(batches: Batches, position: Position) -> Generator[Place]:
    """All windows from a position on, without end."""
    epoch, first = position.epoch, position.window
    while True:
        for number, window in enumerate(batches.epoch(epoch, first), start=first):
            yield epoch, number, window
        epoch, first = epoch + 1, 0


def _advance(
    learner: Learner, place: Place, config: TrainConfig, settings: StepSettings, state: Snapshot, clock: float
) -> Snapshot:
    """The state after one more step."""
    epoch, number, window = place
    before = state.position
    lr = learning_rate(config.optim, before.step, before.share(config))
    try:
        memory, values = train_step(learner, window.to(settings.device), state.memory, lr, settings)
    except NonFiniteError as error:
        raise NonFiniteError(f"training stopped at step {before.step + 1}: {error}") from error
    position = before.after(epoch, number, elapsed=time.monotonic() - clock)
    meter = state.meter.add(values, frames=int(window.valid.sum()), seconds=position.elapsed - before.elapsed)
    return Snapshot(position, memory, meter)
