"""One run: dataset and policy brought together, then the loop."""

from collections.abc import Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any, cast

from robomem.checkpoint import BuildPolicy, default_build, read_spec, write_policy
from robomem.config import TrainConfig
from robomem.contract import Policy
from robomem.devices import find_device
from robomem.errors import NonFiniteError
from robomem.spec import EmbodimentSpec, PolicySpec
from robomem.statistics import Statistics
from robomem.training.display import Display
from robomem.training.features import encode_frames, frozen_encoder
from robomem.training.learner import make_learner
from robomem.training.loop import Batches, Outputs, run_loop
from robomem.training.metrics import Metrics
from robomem.training.progress import Meter, Position
from robomem.training.random_state import seed_all
from robomem.training.run_folder import METRICS, RunFolder
from robomem.training.snapshot import Snapshot, restore_snapshot, write_snapshot
from robomem.training.step import StepSettings


class Run:
    """A run that is not finished."""

    def __init__(self, folder: RunFolder, config: TrainConfig, build: BuildPolicy | None = None) -> None:
        """Read the dataset and build the policy (see `robomem.train.train`)."""
        from robomem.datasets.open import open_training_data
        from robomem.datasets.statistics import common_gap, compute_statistics

        self._folder, self._config, self._device = folder, config, find_device(config.device)
        self._reader, self._visits = open_training_data(config.data)
        self._statistics = compute_statistics(self._reader)
        gap = common_gap(self._reader, config.data.augmentation, config.seed)
        self._spec = make_spec(self._reader.embodiment, config.policy["horizon"], gap, self._statistics)
        seed_all(config.seed)
        policy = (build or default_build())(config.policy, self._spec, self._statistics)
        self._learner = make_learner(policy.to(self._device), config.optim)

    def train(self, checkpoint: Path | None) -> None:
        """From a checkpoint, or from the beginning, to the end."""
        config, run_dir = self._config, self._folder.path
        start = self._restore(checkpoint) if checkpoint else self._begin()
        batches = self._batches()
        events = run_dir / "tensorboard" if config.tracker.tensorboard else None
        settings = StepSettings(self._device, config.precision == "bfloat16", config.optim.clip)
        with (
            Metrics(run_dir / METRICS, start.position.step, events) as metrics,
            Display(config, start.position) as display,
        ):
            display.tell(self._headline(checkpoint))
            outputs = Outputs(metrics, display, self._save)
            try:
                end = run_loop(self._learner, batches, config, settings, outputs, start)
            except NonFiniteError as error:
                good = self._folder.newest or "none"
                fix = "start another run with a lower optim.lr or optim.clip"
                raise NonFiniteError(f"{error}; the last good checkpoint is {good}; {fix}") from error
            display.tell(f"finished after {end.position.step} steps: {self._folder.newest}")

    def _batches(self) -> Batches:
        from robomem.datasets.sequences import SequenceBatches

        data, horizon, seed = self._config.data, self._spec.horizon, self._config.seed
        batches = SequenceBatches(
            self._reader, data.batch_size, data.window, horizon, seed, data.augmentation, weights=self._visits
        )
        if not data.cache_features:
            return batches
        encoder = frozen_encoder(self._learner.acting)
        return batches.encoded(encode_frames(self._reader, encoder, data.features_folder))

    def _begin(self) -> Snapshot:
        policy = cast("Policy", self._learner.policy)
        return Snapshot(Position(), policy.init_memory(self._config.data.batch_size), Meter())

    def _restore(self, checkpoint: Path) -> Snapshot:
        mine, theirs = f"the run {self._folder.path}", f"the dataset {self._config.data.root}"
        read_spec(checkpoint).check(self._spec, mine, theirs, "restore the dataset, or start another run with name=...")
        return restore_snapshot(checkpoint, self._learner, self._device)

    def _save(self, snapshot: Snapshot) -> Path:
        def write(folder: Path) -> None:
            write_policy(folder, self._learner.acting, self._config.policy, self._spec, self._statistics)
            write_snapshot(folder, self._learner, snapshot, self._device)

        return self._folder.save_checkpoint(snapshot.position.step, write, self._config.checkpoints)

    def _headline(self, checkpoint: Path | None) -> str:
        count = sum(parameter.numel() for parameter in self._learner.policy.parameters())
        policy = f"{_name(self._config.policy)} ({count:,} parameters) on {self._device}"
        data = f"{len(self._reader)} episodes, {self._statistics.ticks:,} ticks of {self._config.data.root}"
        return f"{policy}; {data}; " + (f"going on from {checkpoint}" if checkpoint else f"run {self._folder.path}")


def make_spec(embodiment: EmbodimentSpec, horizon: int, gap: float, statistics: Statistics) -> PolicySpec:
    """The contract of a policy trained on data with a common gap (see `PolicySpec.max_gap`), in seconds."""
    return PolicySpec(
        **{field.name: getattr(embodiment, field.name) for field in fields(EmbodimentSpec)},
        horizon=horizon,
        observe_period=embodiment.action_dt,
        max_gap=max(2 * embodiment.action_dt, gap),
        statistics_hash=statistics.digest,
    )


def _name(policy: Mapping[str, Any]) -> str:
    return str(policy.get("name", "policy"))
