"""What the page shows of the evaluations on one task."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from robomem.report import commands, figures
from robomem.report.media import Clip, load_clip
from robomem.report.model import Episode, Evaluation, Run, Unfinished
from robomem.report.svg import Drawing

CLIPS_PER_OUTCOME = 2
"""Videos shown of a run's successes, and of its failures."""
OUTCOMES = {
    "success": "success",
    "wrong": "failure, wrong first choice",
    "failure": "failure",
    "none": "not evaluated",
}


@dataclass(frozen=True)
class Result:
    """A row of the results table."""

    run: Run
    series: str
    evaluation: Evaluation | None
    state: str
    """How far the evaluation is when it is missing."""
    command: str
    """What makes the evaluation."""


@dataclass(frozen=True)
class Pairing:
    """A memory policy and its memoryless control on the same seeds."""

    memory: Result
    control: Result
    both: int
    memory_only: int
    control_only: int
    neither: int

    @property
    def pairs(self) -> int:
        """Seeds that both were evaluated on."""
        return self.both + self.memory_only + self.control_only + self.neither

    @property
    def p_value(self) -> float:
        """Exact two-sided McNemar test: how likely so uneven a split is if memory made no difference."""
        split = self.memory_only + self.control_only
        tail = sum(math.comb(split, k) for k in range(min(self.memory_only, self.control_only) + 1))
        return min(1.0, 2 * tail / 2**split)

    @property
    def difference(self) -> float:
        """Success rate with memory less that without."""
        return _rate(self.memory) - _rate(self.control)


@dataclass(frozen=True)
class Cell:
    """One episode of the grid."""

    outcome: str
    tip: str


@dataclass(frozen=True)
class Shot:
    """A video of one episode."""

    seed: int
    success: bool | None
    caption: str
    clip: Clip


@dataclass(frozen=True)
class Task:
    """Everything evaluated on one environment."""

    env_id: str
    results: tuple[Result, ...]
    pairing: Pairing | None
    charts: tuple[Drawing, ...]
    chance: float | None
    seeds: tuple[int, ...]
    grid: tuple[tuple[Result, tuple[Cell, ...]], ...]
    shots: tuple[tuple[Result, tuple[Shot, ...]], ...]
    notes: tuple[str, ...]

    @property
    def evaluated(self) -> tuple[Result, ...]:
        """The results that are there."""
        return tuple(result for result in self.results if result.evaluation)

    @property
    def instruction(self) -> str:
        """What the robot was told."""
        return next((r.evaluation.instruction for r in self.results if r.evaluation and r.evaluation.instruction), "")


def build_task(key: str, env_id: str, runs: Sequence[Run], series: Mapping[str, str]) -> Task:
    """Gather the evaluations of all runs on an environment; `key` is unique on the page."""
    results = tuple(
        _result(env_id, run, series[run.name])
        for run in runs
        if run.trained or env_id in run.evaluations or env_id in run.unfinished_evaluations
    )
    there = [(result, result.evaluation) for result in results if result.evaluation]
    seeds = tuple(sorted({e.seed for _, evaluation in there for e in evaluation.records}))
    chance = next((e.chance for _, e in there if e.chance is not None), None)
    return Task(
        env_id=env_id,
        results=results,
        pairing=_pairing(results),
        charts=_charts(key, there, chance),
        chance=chance,
        seeds=seeds,
        grid=tuple((result, _cells(evaluation, seeds)) for result, evaluation in there if evaluation.records),
        shots=tuple((result, _shots(result, evaluation)) for result, evaluation in there if evaluation.videos),
        notes=_notes(there),
    )


def missing(unfinished: Unfinished | None, command: str) -> tuple[str, str]:
    """How far something is that is not there, and what makes it: `command`, where it was not begun."""
    if unfinished is None:
        return "not run", command
    return f"unfinished, {unfinished.episodes} episodes so far", unfinished.command


def _result(env_id: str, run: Run, series: str) -> Result:
    evaluation = run.evaluations.get(env_id)
    if evaluation:
        return Result(run, series, evaluation, "finished", evaluation.command)
    command = commands.evaluate(run.path, env_id)
    return Result(run, series, None, *missing(run.unfinished_evaluations.get(env_id), command))


def _rate(result: Result) -> float:
    return result.evaluation.success_once.rate if result.evaluation else math.nan


def _pairing(results: Sequence[Result]) -> Pairing | None:
    memory = next((r for r in results if r.run.kind == "memory" and r.evaluation), None)
    control = next((r for r in results if r.run.kind == "memoryless" and r.evaluation), None)
    if not (memory and memory.evaluation and control and control.evaluation):
        return None
    mine = {e.seed: e.success_once for e in memory.evaluation.records}
    theirs = {e.seed: e.success_once for e in control.evaluation.records}
    pairs = [(mine[seed], theirs[seed]) for seed in mine.keys() & theirs.keys()]
    counts = (pairs.count(pair) for pair in ((True, True), (True, False), (False, True), (False, False)))
    return Pairing(memory, control, *counts)


def _charts(key: str, there: Sequence[tuple[Result, Evaluation]], chance: float | None) -> tuple[Drawing, ...]:
    charts = []
    for field, title in (
        ("success_once", "Success at any time"),
        ("first_choice", "First choice right"),
        ("success_at_end", "Success at the end"),
    ):
        rows = [figures.Row(r.run.name, found, r.series) for r, e in there if (found := getattr(e, field))]
        if rows:
            charts.append(figures.forest(f"{key}-{field}", title, rows, chance if field == "first_choice" else None))
    return tuple(charts)


def _cells(evaluation: Evaluation, seeds: Sequence[int]) -> tuple[Cell, ...]:
    by_seed = {episode.seed: episode for episode in evaluation.records}
    return tuple(_cell(seed, by_seed.get(seed)) for seed in seeds)


def _cell(seed: int, episode: Episode | None) -> Cell:
    if episode is None:
        return Cell("none", f"Seed {seed}: not evaluated")
    wrong = episode.first_choice == -1
    outcome = "success" if episode.success_once else "wrong" if wrong else "failure"
    return Cell(outcome, f"Seed {seed}: {'success' if episode.success_once else 'failure'}, {describe(episode)}")


def describe(episode: Episode) -> str:
    """How an episode went, besides success."""
    told = [f"{episode.steps} steps", f"return {episode.total_return:.2f}"]
    if episode.success_once and not episode.success_at_end:
        told.insert(0, "lost again before the end")
    if episode.first_choice:
        told.insert(0, "first choice right" if episode.first_choice == 1 else "first choice wrong")
    return ", ".join(told)


def _shots(result: Result, evaluation: Evaluation) -> tuple[Shot, ...]:
    by_seed = {episode.seed: episode for episode in evaluation.records}
    picked: list[int] = []
    for wanted in (True, False):
        seeds = [s for s in evaluation.videos if s in by_seed and by_seed[s].success_once == wanted]
        picked += sorted(seeds)[:CLIPS_PER_OUTCOME]
    shots = []
    for seed in picked or sorted(evaluation.videos)[:CLIPS_PER_OUTCOME]:
        clip = load_clip(evaluation.videos[seed], f"delete it and evaluate again: {result.command}")
        episode = by_seed.get(seed)
        caption = describe(episode) if episode else "outcome not recorded"
        shots.append(Shot(seed, episode.success_once if episode else None, caption, clip))
    return tuple(shots)


def _notes(there: Sequence[tuple[Result, Evaluation]]) -> tuple[str, ...]:
    notes = []
    for field, label in (("start_seed", "first seed"), ("episodes", "episodes"), ("render", "render")):
        # A baseline acts on privileged state and renders nothing.
        compared = [(r, e) for r, e in there if r.run.trained or field != "render"]
        values = {str(getattr(e, field)): r.run.name for r, e in compared}
        if len(values) > 1:
            told = ", ".join(f"{name} {value}" for value, name in values.items())
            notes.append(f"The evaluations differ in {label} ({told}), so compare them with care.")
    for result, e in there:
        if e.records and len(e.records) != e.episodes:
            notes.append(f"{result.run.name}: {len(e.records)} of {e.episodes} episodes are recorded.")
    return tuple(notes)
