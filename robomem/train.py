"""`robomem train`: a policy on recorded episodes, to be stopped and continued at will."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from robomem.config import TrainConfig, run_hydra, to_dataclass, typed_node
from robomem.errors import RobomemError

if TYPE_CHECKING:
    from omegaconf import DictConfig

    from robomem.checkpoint import BuildPolicy


PARTS = ("encoder", "memory", "head", "trunk")
"""Groups of which a policy chooses an option each."""


def main() -> None:
    """Train as the command line says."""
    run_hydra("train", _run)


def train(config: TrainConfig, overrides: Sequence[str] = (), build: "BuildPolicy | None" = None) -> Path:
    """Train a policy, or go on with the run in `config.run_dir` where it was stopped.

    On a CPU, and with `max_steps` as the only limit, a run that was interrupted gives the same weights, bit for bit,
    as one that was not.

    Args:
        config: All settings.
        overrides: What was said on the command line; kept with the run.
        build: Builds the policy; `robomem.policies.build.build_policy` by default.

    Returns:
        The folder of the run.

    Raises:
        SpecMismatch: the run's checkpoint and the dataset do not belong together.
        NonFiniteError: a loss or a gradient is NaN or infinite.
        RobomemError: another process trains there, the run has other settings, there is no dataset, a file is damaged,
            or the disk is full.
    """
    from robomem.training.run import Run
    from robomem.training.run_folder import RunFolder
    from robomem.training.snapshot import read_position

    folder = RunFolder(Path(config.run_dir))
    with folder.locked():
        newest = folder.newest
        if config.resume and newest is None:
            raise RobomemError(f"{folder.path} has no checkpoint to resume; start it anew without resume=")
        folder.record(config, overrides)
        if newest and read_position(newest).share(config) == 1:
            _tell(
                f"{folder.path} is finished; raise max_steps or max_minutes to go on, or set name=... for another run"
            )
        else:
            Run(folder, config, build).train(newest)
    return folder.path


def _run(composed: "DictConfig") -> None:
    from hydra.core.hydra_config import HydraConfig
    from hydra.types import RunMode

    hydra = HydraConfig.get()
    overrides = list(hydra.overrides.task)
    if composed.resume is not None:
        config = resumed_config(composed, overrides)
    else:
        composed.policy.name = swapped_name(composed.policy.name, overrides)
        config = to_dataclass(composed, TrainConfig)
        if hydra.mode is RunMode.MULTIRUN:
            config = replace(config, run_dir=hydra.runtime.output_dir)
    train(config, overrides)


def swapped_name(name: str, overrides: Sequence[str]) -> str:
    """The name of a policy of which parts were swapped: `memory_vla` with `memory=gru` is `memory_vla-gru`.

    Args:
        name: Of the policy as its file has it.
        overrides: What was said on the command line; a name that is given there stays.
    """
    said = {key: value for key, _, value in (override.partition("=") for override in overrides)}
    return name if "policy.name" in said else "-".join([name, *(said[part] for part in PARTS if part in said)])


def resumed_config(composed: "DictConfig", overrides: Sequence[str]) -> TrainConfig:
    """The configuration of the run `composed.resume`, with the changes of the command line that a run may take.

    Raises:
        RobomemError: no run there, or a change of another setting.
    """
    from omegaconf import OmegaConf

    from robomem.training.run_folder import CHANGEABLE, is_part_of, read_config

    run_dir = Path(composed.resume)
    saved = typed_node(TrainConfig)
    saved.merge_with(read_config(run_dir))
    for override in overrides:
        key = override.split("=")[0].lstrip("+~")
        if is_part_of(key, CHANGEABLE):
            OmegaConf.update(saved, key, OmegaConf.select(composed, key))
        elif key != "resume":
            raise RobomemError(f"resume={run_dir} keeps that run's {key}; only {', '.join(CHANGEABLE)} may change")
    return replace(to_dataclass(saved, TrainConfig), resume=str(run_dir), run_dir=str(run_dir))


def _tell(text: str) -> None:
    from rich.console import Console

    Console().print(text, highlight=False, soft_wrap=True, markup=False)
