"""`repair_dataset`: a new LeRobotDataset v3 of every episode that is whole or can be mended."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from robomem.datasets.checking.check import Report, is_lerobot
from robomem.datasets.checking.copying import EpisodeCopy
from robomem.datasets.checking.finding import Effect, Finding
from robomem.datasets.checking.layout import claims
from robomem.datasets.checking.survey import Survey, take_survey
from robomem.errors import RobomemError
from robomem.files import atomic_folder, disk_guard


@dataclass(frozen=True)
class Repaired:
    """What became of the episodes."""

    kept: tuple[int, ...]
    """Their indices in the original, in the order of the new dataset."""
    lost: dict[int, str]
    """Why each of the others was left out."""
    mended: tuple[Finding, ...]
    """What was made anew."""


def repair_dataset(
    root: Path, out: Path, findings: Sequence[Finding], report: Report = lambda done, total: None
) -> Repaired:
    """Write a new dataset; the original stays as it is.

    Args:
        root: Folder of the damaged dataset.
        out: Folder of the new one; there must be nothing.
        findings: Of `check_dataset` for `root`.
        report: Told after each episode.

    Raises:
        RobomemError: not one episode can be kept, `out` exists or is within `root`, the disk is full, or the dataset is
            RLDS.
    """
    if not is_lerobot(root):
        raise RobomemError(f"{root} is no LeRobotDataset; convert what can be read of it with `robomem data convert`")
    if out.exists():
        raise RobomemError(f"{out} exists; give a new folder for the repaired dataset")
    if out.resolve().is_relative_to(root.resolve()):
        raise RobomemError(f"{out} is within {root}, which stays as it is; give a folder elsewhere")
    survey = take_survey(root)
    repaired = _decide(survey, findings)
    if not repaired.kept:
        raise RobomemError(f"no episode of {root} is whole; restore it from a copy or record it anew")
    with disk_guard(out, "the repaired dataset was not written"), atomic_folder(out) as folder:
        EpisodeCopy(survey, folder, repaired.kept).write(lambda done: report(done, len(repaired.kept)))
    return repaired


def _decide(survey: Survey, findings: Sequence[Finding]) -> Repaired:
    """Which episodes to keep, and why not the others."""
    lost: dict[int, str] = {}
    for finding in findings:
        if finding.effect is Effect.LOST and finding.episode is not None:
            lost.setdefault(finding.episode, finding.what)
    present = claims(survey).keys()
    for episode in survey.rows.keys() - present:
        lost.setdefault(episode, "its rows are in a file that is missing or cannot be read")
    mended = (f for f in findings if f.effect is Effect.MENDED and f.episode not in lost and not _is_gone(survey, f))
    return Repaired(tuple(sorted(present - lost.keys())), dict(sorted(lost.items())), tuple(mended))


def _is_gone(survey: Survey, finding: Finding) -> bool:
    """Whether a finding is about a file of rows or frames, which nothing brings back."""
    return finding.file is not None and finding.file.startswith(("data/", "videos/")) and finding.episode is None
