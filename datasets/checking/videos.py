"""Whether the video files that the table of episodes names are there and can be opened."""

from collections.abc import Iterator
from pathlib import Path

from robomem.datasets.checking.finding import Finding, one_line
from robomem.datasets.checking.survey import Survey
from robomem.datasets.lerobot_format import video_features


def video_file(survey: Survey, episode: int, feature: str) -> str | None:
    """The file with an episode's frames, below the dataset's folder; None if the table does not tell."""
    row = survey.rows.get(episode, {})
    numbers = [row.get(f"videos/{feature}/{part}_index") for part in ("chunk", "file")]
    if any(type(number) is not int for number in numbers):
        return None
    chunk, file = numbers
    return survey.info["video_path"].format(video_key=feature, chunk_index=chunk, file_index=file)


def check_videos(survey: Survey) -> Iterator[Finding]:
    """A finding for each video file that is missing or cannot be opened."""
    features = video_features(survey.info["features"])
    named = {video_file(survey, episode, feature) for feature in features for episode in survey.rows}
    for file in sorted(file for file in named if file is not None):
        path = survey.root / file
        if not path.is_file():
            yield Finding(check="missing-file", file=file, what="it is missing")
        elif why := _unopenable(path):
            yield Finding(check="damaged-file", file=file, what=f"it cannot be opened as a video ({why})")


def _unopenable(path: Path) -> str | None:
    import av
    from av.error import FFmpegError

    try:
        with av.open(str(path)) as container:
            return None if container.streams.video else "it has no pictures"
    except (FFmpegError, OSError, ValueError) as error:
        return one_line(error)
