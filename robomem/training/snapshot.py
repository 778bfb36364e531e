"""The part of a checkpoint that lets a run go on as if it had never stopped.

training/optimizer.safetensors   moments of each parameter
training/memory.safetensors      memory carried into the next window
training/weights.safetensors     weights that are trained, where the policy's file holds their moving average
training/state.json              position, random number generators, running means
"""

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from robomem.checkpoint import WEIGHTS, load_weights
from robomem.contract import Memory
from robomem.errors import RobomemError
from robomem.files import read_json, write_json
from robomem.tensors import load_tensors, save_tensors
from robomem.training.learner import Learner
from robomem.training.progress import Meter, Position
from robomem.training.random_state import get_random_state, set_random_state

FOLDER, OPTIMIZER, MEMORY, STATE = "training", "optimizer.safetensors", "memory.safetensors", "state.json"
TRAINED_WEIGHTS = "weights.safetensors"


@dataclass(frozen=True)
class Snapshot:
    """All that changes during a run, apart from the learner and the random number generators."""

    position: Position
    memory: Memory
    """Detached; one row per lane."""
    meter: Meter


def write_snapshot(checkpoint: Path, learner: Learner, snapshot: Snapshot, device: torch.device) -> None:
    """Write the training state into a checkpoint that is being made."""
    folder = checkpoint / FOLDER
    folder.mkdir()
    save_tensors(folder / OPTIMIZER, _optimizer_tensors(learner))
    save_tensors(folder / MEMORY, _memory_tensors(snapshot.memory))
    if learner.average:
        save_tensors(folder / TRAINED_WEIGHTS, learner.policy.state_dict())
    state = {
        "position": asdict(snapshot.position),
        "meter": snapshot.meter.to_dict(),
        "random": get_random_state(device),
    }
    write_json(folder / STATE, state)


def read_position(checkpoint: Path) -> Position:
    """How far the run of a checkpoint was.

    Raises:
        RobomemError: the file is missing or damaged.
    """
    return _parse(checkpoint, lambda state: Position(**state["position"]))


def restore_snapshot(checkpoint: Path, learner: Learner, device: torch.device) -> Snapshot:
    """Bring learner and random number generators back to a checkpoint.

    Raises:
        SpecMismatch: its weights are not those of the policy.
        RobomemError: a file is missing or damaged.
    """
    folder = checkpoint / FOLDER
    weights = folder / TRAINED_WEIGHTS if learner.average else checkpoint / WEIGHTS
    load_weights(learner.policy, load_tensors(weights), weights)
    snapshot = _parse(
        checkpoint,
        lambda state: Snapshot(
            Position(**state["position"]),
            _memory(load_tensors(folder / MEMORY, device)),
            Meter.from_dict(state["meter"]),
        ),
    )
    if learner.average:
        load_weights(learner.average.module, load_tensors(checkpoint / WEIGHTS), checkpoint / WEIGHTS)
        learner.average.n_averaged.fill_(snapshot.position.step)
    _restore_optimizer(learner, load_tensors(folder / OPTIMIZER), folder / OPTIMIZER)
    _parse(checkpoint, lambda state: set_random_state(state["random"], device))
    return snapshot


def _parse[T](checkpoint: Path, parse: Callable[[Mapping[str, Any]], T]) -> T:
    path = checkpoint / FOLDER / STATE
    state = read_json(path)
    try:
        return parse(state)
    except (KeyError, TypeError, ValueError) as error:
        what = f"{type(error).__name__}: {error}"
        raise RobomemError(f"{path} is damaged ({what}); remove {checkpoint} to go on from the one before") from error


def _optimizer_tensors(learner: Learner) -> dict[str, Tensor]:
    """Moments of each parameter that has some, as `<parameter>/<moment>`."""
    state = learner.optimizer.state_dict()
    names = [name for group in state["param_groups"] for name in group["param_names"]]
    indices = [index for group in state["param_groups"] for index in group["params"]]
    return {
        f"{name}/{moment}": tensor
        for name, index in zip(names, indices, strict=True)
        for moment, tensor in state["state"].get(index, {}).items()
    }


def _restore_optimizer(learner: Learner, tensors: Mapping[str, Tensor], path: Path) -> None:
    state = learner.optimizer.state_dict()
    indices = {
        name: index
        for group in state["param_groups"]
        for name, index in zip(group["param_names"], group["params"], strict=True)
    }
    moments: dict[int, dict[str, Tensor]] = {}
    for key, tensor in tensors.items():
        name, _, moment = key.rpartition("/")
        if name not in indices:
            raise RobomemError(f"{path} has moments of {name!r}, which the policy does not train; copy the run again")
        moments.setdefault(indices[name], {})[moment] = tensor
    learner.optimizer.load_state_dict({**state, "state": moments})


def _memory_tensors(memory: Memory) -> dict[str, Tensor]:
    parts = {"working": memory.working, "state": memory.state}
    return {f"{part}/{name}": tensor for part, tensors in parts.items() for name, tensor in tensors.items()}


def _memory(tensors: Mapping[str, Tensor]) -> Memory:
    parts: dict[str, dict[str, Tensor]] = {"working": {}, "state": {}}
    for key, tensor in tensors.items():
        part, _, name = key.partition("/")
        parts[part][name] = tensor
    return Memory(**parts)
