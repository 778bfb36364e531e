"""`check_dataset`: every check over a dataset of any format, which ends with a list and never with a crash."""

from collections.abc import Callable, Iterable
from pathlib import Path

from robomem.datasets import lerobot_format as form
from robomem.datasets.checking.comparison import Portrait, compare_portraits, portray
from robomem.datasets.checking.content import check_content
from robomem.datasets.checking.finding import Finding, one_line
from robomem.datasets.checking.layout import check_layout, claims, rows_lost
from robomem.datasets.checking.recordings import Recording, read_recording
from robomem.datasets.checking.statistics_file import check_statistics
from robomem.datasets.checking.survey import take_survey
from robomem.datasets.checking.videos import check_videos
from robomem.datasets.matching import AUTO
from robomem.datasets.open import open_source
from robomem.errors import RobomemError

Report = Callable[[int, int], None]
"""Told the number of episodes that are done, and of all."""


def is_lerobot(root: Path) -> bool:
    """Whether a folder holds a LeRobotDataset, or what is left of one."""
    return any((root / name).exists() for name in (form.INFO, form.DATA, form.EPISODES, form.ROBOMEM))


def check_dataset(root: Path, mapping: str = AUTO, report: Report = lambda done, total: None) -> list[Finding]:
    """Check every file and every episode of a dataset.

    Args:
        root: Folder of a LeRobotDataset v3, which needs no mapping, or of RLDS.
        mapping: Schema mapping of an RLDS dataset: a name or the path of a YAML file.
        report: Told after each episode.

    Returns:
        Findings; those about files first, then those about episodes in order. A healthy dataset has none.

    Raises:
        RobomemError: there is no dataset, or one of another version, or nothing of it can be opened.
    """
    if root.is_dir() and is_lerobot(root):
        findings = _check_lerobot(root, report)
    else:
        findings = _check_source(root, mapping, report)
    return sorted(findings, key=lambda finding: -1 if finding.episode is None else finding.episode)


def _check_lerobot(root: Path, report: Report) -> list[Finding]:
    survey = take_survey(root)
    survey.findings += list(check_layout(survey))
    survey.findings += list(check_videos(survey))
    segments = [
        parts[0]
        for episode, parts in sorted(claims(survey).items())
        if len(parts) == 1 and not rows_lost(parts[0], survey.rows.get(episode))
    ]
    period = survey.embodiment.action_dt if survey.embodiment else 1 / survey.fps
    recordings = (read_recording(survey, segment) for segment in segments)
    survey.findings += _check_recordings(recordings, len(segments), period, report)
    survey.findings += list(check_statistics(survey))
    return survey.findings


def _check_recordings(recordings: Iterable[Recording], total: int, period: float, report: Report) -> list[Finding]:
    """Check episodes one by one, then against each other."""
    findings: list[Finding] = []
    portraits: list[Portrait] = []
    for done, recording in enumerate(recordings, start=1):
        findings += recording.findings
        episode = recording.episode
        if episode is not None and len(episode):
            findings += check_content(recording.index, episode, period)
            portraits.append(portray(recording.index, episode))
        report(done, total)
    return findings + list(compare_portraits(portraits, period))


def _check_source(root: Path, mapping: str, report: Report) -> list[Finding]:
    source = open_source(root, mapping=mapping)

    def read(position: int) -> Recording:
        index = source.indices[position]
        try:
            return Recording(index, source[position], [])
        except RobomemError as error:
            return Recording(index, None, [Finding(check="unreadable", episode=index, what=one_line(error))])

    recordings = (read(position) for position in range(len(source)))
    return _check_recordings(recordings, len(source), source.embodiment.action_dt, report)
