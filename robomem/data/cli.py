"""The `robomem data` group; each subcommand is a module of its own, imported only when it runs."""

import click

from robomem.cli import Entry, LazyGroup

COMMANDS: dict[str, Entry] = {}


@click.group("data", cls=LazyGroup, entries=COMMANDS)
def main() -> None:
    """Look at, check, convert and join recorded datasets."""
