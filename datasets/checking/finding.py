"""What `robomem data check` can say: the list of checks, and a finding of one of them."""

from dataclasses import dataclass
from enum import StrEnum
from typing import Any

ERROR, WARNING = "error", "warning"


class Effect(StrEnum):
    """What `--repair` does about a finding."""

    LOST = "lost"
    """The episode is left out: its damage cannot be mended without inventing data."""
    MENDED = "mended"
    KEPT = "kept"
    """The episode is copied as it is; a person has to judge."""


@dataclass(frozen=True)
class Check:
    """One kind of damage."""

    severity: str
    """`error`: unreadable or wrong; `warning`: suspicious."""
    effect: Effect
    repair: str
    """What to do about it, in one sentence."""


_COPY = "restore the file from a copy; without one, --repair writes a dataset of"
_LEAVE_OUT = "record the episode again; --repair leaves it out"

CHECKS = {
    "no-robot": Check(
        ERROR,
        Effect.KEPT,
        "copy meta/robomem.json from another dataset of the same robot; --repair cannot make it, and keeps the rest",
    ),
    "missing-file": Check(ERROR, Effect.MENDED, f"{_COPY} what does not need it"),
    "unfinished-file": Check(
        ERROR,
        Effect.LOST,
        f"{_COPY} the rest: a parquet file without its footer was cut off or never closed, and its rows are lost",
    ),
    "damaged-file": Check(ERROR, Effect.MENDED, f"{_COPY} what does not need it"),
    "wrong-info": Check(ERROR, Effect.MENDED, "--repair writes meta/info.json anew from the data"),
    "wrong-counts": Check(ERROR, Effect.MENDED, "--repair counts anew"),
    "uncommitted": Check(
        WARNING, Effect.MENDED, "--repair counts them in; opening the dataset for writing removes them"
    ),
    "wrong-columns": Check(
        ERROR, Effect.LOST, "move the file to the dataset that it belongs to; --repair leaves its episodes out"
    ),
    "lost-columns": Check(ERROR, Effect.LOST, "restore the file from a copy; --repair leaves its episodes out"),
    "wrong-table": Check(ERROR, Effect.MENDED, "--repair writes the table of episodes anew from the data"),
    "wrong-number": Check(ERROR, Effect.MENDED, "--repair numbers the rows anew"),
    "wrong-tasks": Check(ERROR, Effect.MENDED, "--repair writes meta/tasks.parquet anew from the table of episodes"),
    "wrong-statistics": Check(WARNING, Effect.MENDED, "--repair computes the statistics anew"),
    "wrong-fps": Check(ERROR, Effect.MENDED, "--repair takes fps from the timestamps"),
    "wrong-rate": Check(WARNING, Effect.KEPT, "find out why recording ran at another rate than fps, or correct fps"),
    "damaged-rows": Check(ERROR, Effect.LOST, _LEAVE_OUT),
    "wrong-rows": Check(ERROR, Effect.LOST, _LEAVE_OUT),
    "swapped-columns": Check(ERROR, Effect.LOST, "exchange the two columns in a copy; --repair leaves the episode out"),
    "damaged-frames": Check(ERROR, Effect.LOST, _LEAVE_OUT),
    "wrong-frames": Check(ERROR, Effect.LOST, _LEAVE_OUT),
    "other-frames": Check(WARNING, Effect.KEPT, "look at the frames, and record the episode again if they are others"),
    "not-finite": Check(ERROR, Effect.LOST, _LEAVE_OUT),
    "time-order": Check(ERROR, Effect.LOST, _LEAVE_OUT),
    "time-gap": Check(WARNING, Effect.KEPT, "leave the episode out if the missing time matters"),
    "time-drift": Check(WARNING, Effect.KEPT, "leave the episode out if its rate matters"),
    "black-camera": Check(ERROR, Effect.LOST, _LEAVE_OUT),
    "frozen-camera": Check(WARNING, Effect.KEPT, "look at the frames, and leave the episode out if they hang"),
    "swapped-cameras": Check(WARNING, Effect.KEPT, "look at the frames, and record the episode again if so"),
    "colour-order": Check(WARNING, Effect.KEPT, "look at the frames, and record the episode again if so"),
    "constant-actions": Check(WARNING, Effect.KEPT, "leave the episode out if the robot was not meant to stand still"),
    "clipped-actions": Check(WARNING, Effect.KEPT, "widen the limits of the actions, or leave the episode out"),
    "shifted-actions": Check(WARNING, Effect.KEPT, "compare the clocks of actions and observations"),
    "no-instruction": Check(WARNING, Effect.KEPT, "give the episode an instruction, or leave it out"),
    "duplicate": Check(WARNING, Effect.KEPT, "leave one of the two out"),
    "unreadable": Check(ERROR, Effect.LOST, "restore the dataset from a copy, or leave the episode out"),
}
"""Every check by its id."""


@dataclass(frozen=True, kw_only=True)
class Finding:
    """Something wrong or suspicious in a dataset."""

    check: str
    """One of `CHECKS`."""
    what: str
    """What is wrong, in one sentence."""
    episode: int | None = None
    """Index of the episode, if it is about one."""
    file: str | None = None
    """Path below the dataset's folder, if it is about a file."""

    @property
    def severity(self) -> str:
        """`error` or `warning`."""
        return CHECKS[self.check].severity

    @property
    def effect(self) -> Effect:
        """What `--repair` does about it."""
        return CHECKS[self.check].effect

    @property
    def repair(self) -> str:
        """What to do about it."""
        return CHECKS[self.check].repair

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON."""
        names = ("check", "severity", "episode", "file", "what", "repair", "effect")
        return {name: getattr(self, name) for name in names}


def reason(error: Exception) -> str:
    """Why a file is damaged, without its name and without advice, if the error has those."""
    return one_line(str(error).split(" is damaged (", 1)[-1].rsplit(");", 1)[0])


def one_line(why: object) -> str:
    """A message of another library in one short line."""
    return " ".join(str(why).split())[:160]
