"""Proofs that a memory works: small tasks on tokens, learned in minutes on a CPU, without images or a simulator."""

from robomem.errors import RobomemError, nearest

PROBES = {
    "tmaze": "robomem.probes.tmaze.TMaze",
    "recall": "robomem.probes.recall.Recall",
    "interval": "robomem.probes.interval.Interval",
    "counting": "robomem.probes.counting.Counting",
    "copy": "robomem.probes.copying.Copying",
}
"""Every probe and where it lives, in the order of the tables."""


def check_name(kind: str, name: str, valid: list[str]) -> None:
    """Refuse a name that does not exist.

    Raises:
        RobomemError: names the nearest that does.
    """
    if name not in valid:
        raise RobomemError(f"no {kind} {name!r}{nearest(name, valid)}")
