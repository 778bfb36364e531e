"""`robomem bench`: how fast the parts of a policy are."""

import click

from robomem.cli import Entry, LazyGroup

COMMANDS = {
    "memory": Entry("robomem.bench.memory", "Time scans against repeated steps of memory modules."),
    "data": Entry("robomem.bench.data", "Time windows of episodes against LeRobot's loader and TFDS."),
    "convert": Entry("robomem.bench.convert", "Watch the memory of conversions as datasets grow."),
    "features": Entry("robomem.bench.features", "Time training on kept features against end to end."),
    "head": Entry("robomem.bench.head", "Time each objective on each trunk."),
}


@click.group("bench", cls=LazyGroup, entries=COMMANDS)
def main() -> None:
    """Time the parts of a policy on this machine."""
