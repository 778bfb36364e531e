"""Errors that a user can act on: the command line prints them as one line, without a traceback."""


class RobomemError(Exception):
    """A mistake or a missing thing outside the code; the message names the cause and the fix."""


class SpecMismatch(RobomemError):
    """Two sides of the contract disagree; the message names both."""


class NonFiniteError(RobomemError):
    """A NaN or an infinity where a finite number is required."""
