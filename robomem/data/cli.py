"""The `robomem data` group; each subcommand is a module of its own, imported only when it runs."""

import click

from robomem.cli import Entry, LazyGroup

COMMANDS: dict[str, Entry] = {
    "cache": Entry("robomem.data.cache", "Encode every frame once with a frozen encoder."),
    "check": Entry("robomem.data.check", "Find what is wrong with a dataset, and repair a copy."),
    "convert": Entry("robomem.data.convert", "RLDS to LeRobotDataset v3 and back."),
    "inspect": Entry("robomem.data.inspect", "Show a dataset's fields and the mapping that fits."),
    "merge": Entry("robomem.data.merge", "Several datasets of one robot into one."),
    "split": Entry("robomem.data.split", "A dataset into disjoint ones, by shares."),
}


@click.group("data", cls=LazyGroup, entries=COMMANDS)
def main() -> None:
    """Look at, check, convert and join recorded datasets."""
