"""Proofs that a memory works: small tasks on tokens, learned in minutes on a CPU, without images or a simulator."""

PROBES = {
    "tmaze": "robomem.probes.tmaze.TMaze",
    "recall": "robomem.probes.recall.Recall",
    "interval": "robomem.probes.interval.Interval",
    "interval_lamp": "robomem.probes.interval.IntervalLamp",
    "counting": "robomem.probes.counting.Counting",
    "copy": "robomem.probes.copying.Copying",
    "popgym_first": "robomem.probes.popgym_tasks.RepeatFirst",
    "popgym_previous": "robomem.probes.popgym_tasks.RepeatPrevious",
    "shell_game": "robomem.probes.shell_game.ShellGame",
}
"""Every probe and where it lives, in the order of the tables."""
