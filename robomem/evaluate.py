"""`robomem eval`: a policy in closed loop on the benchmark's own seeds, with a record of every episode."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any

from rich.console import Console

from robomem.config import EvalConfig, hydra_program
from robomem.players import Scripted, Trained
from robomem.records import EpisodeLog
from robomem.rollout import EpisodeResult
from robomem.summary import progress, summarise, table

SUMMARY = "summary.json"


def evaluate(config: EvalConfig) -> dict[str, Any]:
    """Run the episodes that have no record yet and summarise all that were asked for.

    Returns:
        The content of `summary.json`.

    Raises:
        RobomemError: see `EpisodeLog`, `rollout` and the loading of checkpoints.
    """
    player = Trained(config) if config.baseline is None else Scripted(config)
    seeds = list(range(config.start_seed, config.start_seed + config.episodes))
    with EpisodeLog(player.folder, player.configuration, config.overwrite) as log:
        complete(log, seeds, player.play)
        results = [result for result in log.results if result.seed in set(seeds)]
        summary = {**summarise(player.configuration, results), "checkpoint": config.checkpoint}
        log.write(SUMMARY, summary)
    return summary


def complete(
    log: EpisodeLog,
    seeds: Sequence[int],
    play: Callable[[list[int]], Iterator[EpisodeResult]],
    intervention: str = "none",
) -> None:
    """Play the seeds that have no result yet and save each result as it comes, under a progress bar."""
    remaining = log.remaining(seeds, intervention)
    if not remaining:
        return
    done = [result for result in log.results if result.intervention == intervention and result.seed in set(seeds)]
    with progress("episodes" if intervention == "none" else f"memory: {intervention}", len(seeds), done) as advance:
        for result in play(remaining):
            result = replace(result, intervention=intervention)
            log.append(result)
            advance(result)


@hydra_program("eval", EvalConfig)
def main(config: EvalConfig) -> None:
    """Evaluate and print the table."""
    Console().print(table(evaluate(config)))
