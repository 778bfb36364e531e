"""A checkpoint: a folder with all that a policy needs to act, and nothing that runs as code.

    model.safetensors   weights
    config.json         what `robomem.policies.build.build_policy` builds
    spec.json           the contract with datasets and environments
    statistics.json     normalisation

A training run keeps its checkpoints as `checkpoints/step-<steps>/` in its folder.
"""

import hashlib
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, cast

import torch
from torch import Tensor, nn

from robomem.contract import Policy
from robomem.environment import Environment
from robomem.errors import NonFiniteError, RobomemError, SpecMismatch
from robomem.files import atomic_folder, disk_guard, read_json, write_json
from robomem.spec import PolicySpec
from robomem.statistics import Statistics
from robomem.tensors import load_tensors, save_tensors

BuildPolicy = Callable[[Mapping[str, Any], PolicySpec, Statistics], nn.Module]
"""Builds a policy of random weights from its configuration, specification and statistics."""

WEIGHTS, CONFIG, SPEC, STATISTICS = "model.safetensors", "config.json", "spec.json", "statistics.json"
FOLDER = "checkpoints"
_AS_A_WHOLE = "they are not of one checkpoint: copy it again as a whole"


def save(
    path: Path | str, module: nn.Module, config: Mapping[str, Any], spec: PolicySpec, statistics: Statistics
) -> None:
    """Write a checkpoint, wholly or not at all.

    Args:
        path: A folder that does not exist yet.
        module: The policy.
        config: JSON values it was built from. A policy that needed other files then has `stored(config)`, which gives
            those that it can be built from without.
        spec: Its contract.
        statistics: What it normalises with.

    Raises:
        RobomemError: there is something at `path`, or the disk is full.
        SpecMismatch: the specification belongs to other statistics.
    """
    path = Path(path)
    with disk_guard(path, "the checkpoint was not saved"):
        if path.exists():
            raise RobomemError(f"{path} exists; give the checkpoint another folder, or remove that one")
        with atomic_folder(path) as folder:
            write_policy(folder, module, config, spec, statistics)


def write_policy(
    folder: Path, module: nn.Module, config: Mapping[str, Any], spec: PolicySpec, statistics: Statistics
) -> None:
    """Write the files of a checkpoint into a folder (see `save`)."""
    _check_digest(spec, statistics, "the policy's specification", "its statistics")
    save_tensors(folder / WEIGHTS, module.state_dict())
    write_json(folder / CONFIG, getattr(module, "stored", dict)(config))
    write_json(folder / SPEC, spec.to_dict())
    write_json(folder / STATISTICS, statistics.to_dict())


def load(path: Path | str, device: torch.device | str = "cpu", build: BuildPolicy | None = None) -> Policy:
    """The policy of a checkpoint, ready to act.

    Args:
        path: A checkpoint, or a run, whose newest checkpoint is taken.
        device: Where the policy is to live.
        build: Builds the policy; `robomem.policies.build.build_policy` by default.

    Raises:
        SpecMismatch: weights, configuration, specification and statistics do not belong together; both sides are named.
        NonFiniteError: a weight is NaN or infinite.
        RobomemError: no checkpoint there, or a file of it is missing or damaged.
    """
    folder = resolve(path)
    config, spec, statistics = policy_config(folder), read_spec(folder), read_statistics(folder)
    _check_digest(spec, statistics, str(folder / SPEC), str(folder / STATISTICS))
    weights = load_tensors(folder / WEIGHTS)
    policy = (build or default_build())(config, spec, statistics)
    load_weights(policy, weights, folder / WEIGHTS)
    return cast("Policy", policy.to(device).eval())


def load_weights(module: nn.Module, weights: Mapping[str, Tensor], path: Path) -> None:
    """Give a module the weights of a file.

    Raises:
        SpecMismatch: a weight that only one side has, or that has another shape or type; the first few are named.
        NonFiniteError: a weight is NaN or infinite.
    """
    expected, found = _describe(module.state_dict()), _describe(weights)
    differences = [
        f"{name}: the file has {found.get(name, 'none')}, the policy {expected.get(name, 'none')}"
        for name in dict.fromkeys((*expected, *found))
        if found.get(name) != expected.get(name)
    ]
    if differences:
        shown = "; ".join(differences[:3]) + f" ({len(differences)} in all)" * (len(differences) > 3)
        raise SpecMismatch(f"{path} does not fit the policy of {CONFIG}: {shown}; {_AS_A_WHOLE}")
    for name, _ in module.named_parameters():
        if not torch.isfinite(weights[name]).all():
            raise NonFiniteError(f"{path}: {name} holds a NaN or an infinity; use an earlier checkpoint, or train anew")
    module.load_state_dict(dict(weights))


def resolve(path: Path | str) -> Path:
    """The checkpoint at a path: the folder itself, or the newest of a run.

    Raises:
        RobomemError: there is none.
    """
    path = Path(path)
    if any((path / name).exists() for name in (WEIGHTS, CONFIG, SPEC, STATISTICS)):
        return path
    if checkpoints := list_checkpoints(path):
        return checkpoints[-1]
    raise RobomemError(f"{path} holds no checkpoint; give the folder of a run of `robomem train` or of a checkpoint")


def list_checkpoints(run_dir: Path) -> list[Path]:
    """The complete checkpoints of a run, by number of steps."""
    found = [path for path in (run_dir / FOLDER).glob("step-*") if re.fullmatch(r"step-\d+", path.name)]
    return sorted(found, key=steps_of)


def steps_of(checkpoint: Path) -> int:
    """Training steps behind a checkpoint of a run."""
    return int(checkpoint.name.removeprefix("step-"))


def policy_config(folder: Path) -> dict[str, Any]:
    """What the policy of a checkpoint is built from.

    Raises:
        RobomemError: its file is missing or damaged.
    """
    return _read(folder / CONFIG, _named)


def digest(folder: Path) -> str:
    """Hash of the policy in a checkpoint: the same for the same weights, configuration, specification and statistics.

    Raises:
        RobomemError: a file is missing.
    """
    total = hashlib.sha256()
    for name in (WEIGHTS, CONFIG, SPEC, STATISTICS):
        try:
            with (folder / name).open("rb") as file:
                total.update(hashlib.file_digest(file, "sha256").digest())
        except FileNotFoundError as error:
            raise RobomemError(f"{folder / name} is missing; copy the checkpoint again as a whole") from error
    return total.hexdigest()[:16]


def read_spec(folder: Path) -> PolicySpec:
    """The specification of a checkpoint.

    Raises:
        RobomemError: its file is missing or damaged.
    """
    return _read(folder / SPEC, PolicySpec.from_dict)


def read_statistics(folder: Path) -> Statistics:
    """The statistics of a checkpoint.

    Raises:
        RobomemError: their file is missing or damaged.
    """
    return _read(folder / STATISTICS, Statistics.from_dict)


def check_environment(policy: Policy, environment: Environment) -> None:
    """Raise `SpecMismatch`, naming both sides, unless a policy's robot is the environment's."""
    fix = "choose the environment that its data was recorded in, or train on data of this one"
    policy.spec.embodiment.check(environment.embodiment, "the checkpoint", "the environment", fix)


def default_build() -> BuildPolicy:
    """The builder of RoboMem's own policies."""
    from robomem.policies.build import build_policy

    return build_policy


def _read[T](path: Path, parse: Callable[[Any], T]) -> T:
    data = read_json(path)
    try:
        return parse(data)
    except (KeyError, TypeError, AttributeError, ValueError) as error:
        what = f"{type(error).__name__}: {error}"
        raise RobomemError(f"{path} is not what this version writes ({what}); copy it again, or use another") from error


def _named(config: Any) -> dict[str, Any]:
    """A configuration of a policy has its name at least."""
    return {**config, "name": config["name"]}


def _check_digest(spec: PolicySpec, statistics: Statistics, mine: str, theirs: str) -> None:
    if spec.statistics_hash != statistics.digest:
        raise SpecMismatch(
            f"{mine} names statistics {spec.statistics_hash}, {theirs} has {statistics.digest}; {_AS_A_WHOLE}"
        )


def _describe(tensors: Mapping[str, Tensor]) -> dict[str, str]:
    """Shape and type of each tensor, in words."""
    return {name: f"{tuple(tensor.shape)} {str(tensor.dtype)[6:]}" for name, tensor in tensors.items()}
