"""Errors that a user can act on: the command line prints them as one line, without a traceback."""

import difflib
from collections.abc import Iterable


class RobomemError(Exception):
    """A mistake or a missing thing outside the code; the message names the cause and the fix."""


class SpecMismatch(RobomemError):
    """Two sides of the contract disagree; the message names both."""


class NonFiniteError(RobomemError):
    """A NaN or an infinity where a finite number is required."""


def nearest(name: str, valid: Iterable[str]) -> str:
    """The end of a message about an unknown name: the valid name most like it, or all of them."""
    names = sorted(valid)
    if close := difflib.get_close_matches(name, names, n=1, cutoff=0.5):
        return f"; did you mean {close[0]!r}?"
    return f"; there are: {', '.join(names)}" if names else ""
