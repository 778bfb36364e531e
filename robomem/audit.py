"""`robomem audit`: does a policy use its memory, and what does the memory hold?"""

from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.progress import track

from robomem.auditing.action_change import action_changes
from robomem.auditing.gradients import memory_gradients
from robomem.auditing.interventions import INTERVENTIONS, Donors, make_intervention, record_donors
from robomem.auditing.probe import retention, sightings
from robomem.auditing.recorded import Recorded
from robomem.auditing.tables import tables
from robomem.auditing.trace import trace
from robomem.auditing.verdict import compare, judge
from robomem.config import AuditConfig, hydra_program
from robomem.evaluate import complete
from robomem.players import LoadedCheckpoint, open_environment, sim_identity
from robomem.records import EpisodeLog
from robomem.rollout import check, rollout
from robomem.rows import device_of
from robomem.summary import proportions, versions

if TYPE_CHECKING:
    from robomem.contract import Policy
    from robomem.environment import Environment

AUDIT = "audit.json"
_GRADIENT_EPISODES = 4
"""Episodes in the window whose gradient is measured."""


def audit(config: AuditConfig) -> dict[str, Any]:
    """Measure what has no record yet, and judge.

    Returns:
        The content of `audit.json`.

    Raises:
        RobomemError: checkpoint, dataset and task do not fit; or see `EpisodeLog` and `rollout`.
    """
    checkpoint = LoadedCheckpoint(config.checkpoint, config.device)
    recorded = Recorded(config.dataset, config.recorded, config.sim.env_id, config.mapping)
    fix = "give the dataset it was trained on, or another of the same robot"
    robot = checkpoint.policy.spec.embodiment
    robot.check(recorded.reader.embodiment, "the checkpoint", f"the dataset {config.dataset}", fix)
    replan_every = config.replan_every or checkpoint.policy.spec.horizon
    seeds = list(range(config.start_seed, config.start_seed + config.episodes))
    configuration = {
        "env_id": config.sim.env_id,
        **checkpoint.identity,
        **sim_identity(config.sim),
        "dataset_digest": recorded.digest,
        "donors": config.donors,
        "start_seed": config.start_seed,
        "replan_every": replan_every,
        "noise_seed": config.noise_seed,
    }
    folder = checkpoint.output_folder("audit", config.sim.env_id, config.output_dir)
    with EpisodeLog(folder, configuration, config.overwrite) as log:
        auditor = Auditor(checkpoint.policy, recorded, log, Settings(replan_every, config.noise_seed, config.donors))
        if any(log.remaining(seeds, name) for name in INTERVENTIONS):
            with closing(open_environment(config.sim, len(seeds))) as environment:
                check(checkpoint.policy, environment, replan_every)
                auditor.measure()
                auditor.intervene(environment, seeds)
        return auditor.conclude(seeds)


@dataclass(frozen=True)
class Settings:
    """How a policy is driven while it is audited."""

    replan_every: int
    """Ticks between plans."""
    noise_seed: int
    """Seed of the noise that plans are drawn with."""
    donors: int
    """Recorded episodes whose memories are put in place of the policy's own."""


class Auditor:
    """The measurements of one policy, each of which is kept in the log as soon as it is made."""

    def __init__(self, policy: "Policy", recorded: Recorded, log: EpisodeLog, settings: Settings) -> None:
        """Measure nothing yet."""
        self._policy, self._recorded, self._log, self._settings = policy, recorded, log, settings

    def measure(self) -> None:
        """Take all measurements that need recorded episodes alone."""
        self._log.part("trace", lambda: trace(self._policy, self._recorded.first(1)[0], self._log.folder / "trace"))
        self._log.part("gradients", self._gradients)
        self._log.part("retention", self._retention)
        self._log.part("action_change", self._action_change)

    def intervene(self, environment: "Environment", seeds: Sequence[int]) -> None:
        """Play the episodes in closed loop under each intervention."""
        for name in INTERVENTIONS:
            play = partial(
                rollout,
                self._policy,
                environment,
                replan_every=self._settings.replan_every,
                intervene=make_intervention(name, self._donors),
                noise_seed=self._settings.noise_seed,
            )
            complete(self._log, seeds, play, name)

    def conclude(self, seeds: Sequence[int]) -> dict[str, Any]:
        """Judge, write `audit.json` and return its content."""
        self.measure()
        parts = {name: self._log.part(name, dict) for name in ("action_change", "gradients", "retention", "trace")}
        chosen = [result for result in self._log.results if result.seed in set(seeds)]
        results = {name: [r for r in chosen if r.intervention == name] for name in INTERVENTIONS}
        verdict, reasons = judge(compare(results), parts["action_change"])
        content = {
            **self._log.configuration,
            "episodes": len(seeds),
            "interventions": {
                name: {
                    **{key: value and value.to_dict() for key, value in proportions(results[name]).items()},
                    "action_change": parts["action_change"][name],
                }
                for name in INTERVENTIONS
            },
            "gradients": parts["gradients"],
            "dead_parameters": [name for name, norm in parts["gradients"].items() if norm == 0],
            "retention": parts["retention"],
            "verdict": verdict,
            "reasons": reasons,
            "trace": parts["trace"],
            "versions": versions(),
        }
        self._log.write(AUDIT, content)
        return content

    @cached_property
    def _donors(self) -> Donors:
        return record_donors(self._policy, self._recorded.first(self._settings.donors))

    def _action_change(self) -> dict[str, float]:
        episodes = self._recorded.first(self._settings.donors)
        return action_changes(
            self._policy, episodes, self._donors, self._settings.replan_every, self._settings.noise_seed
        )

    def _gradients(self) -> dict[str, float]:
        window = self._recorded.window(_GRADIENT_EPISODES, self._policy.spec.horizon)
        return memory_gradients(self._policy, window.to(device_of(self._policy)))

    def _retention(self) -> list[dict[str, Any]]:
        groups = track(self._recorded.groups(), "replaying recorded episodes")
        return retention([seen for group in groups for seen in sightings(self._policy, self._recorded.read(group))])


@hydra_program("audit", AuditConfig)
def main(config: AuditConfig) -> None:
    """Audit, and print tables and verdict."""
    console = Console()
    result = audit(config)
    for view in tables(result):
        console.print(view)
    console.print(f"[bold]{result['verdict']}[/bold]")
    for reason in result["reasons"]:
        console.print(f"- {reason}", highlight=False)
