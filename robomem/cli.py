"""The `robomem` command: every subcommand is a module of its own, imported only when it runs."""

import errno
import importlib
import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import click

from robomem import __version__
from robomem.errors import RobomemError, nearest

INTERRUPTED = 130
"""Exit status after Ctrl-C, as a shell reports it."""


@dataclass(frozen=True)
class Entry:
    """Where a subcommand lives and what the list of commands says of it."""

    module: str
    help: str
    config: str | None = None
    """Name of the Hydra configuration if the module's `main` is a Hydra program, otherwise it is a click command."""


COMMANDS = {
    "quickstart": Entry("robomem.quickstart", "Collect, train, evaluate, audit and report on one task."),
    "collect": Entry("robomem.collect", "Record episodes of a scripted demonstrator.", config="collect"),
    "train": Entry("robomem.train", "Train a policy on recorded episodes.", config="train"),
    "eval": Entry("robomem.evaluate", "Evaluate a policy in closed loop.", config="eval"),
    "audit": Entry("robomem.audit", "Test whether a policy uses its memory.", config="audit"),
    "probe": Entry("robomem.probe", "Test memory modules on small tasks, without a simulator."),
    "bench": Entry("robomem.bench.cli", "Time the parts of a policy."),
    "data": Entry("robomem.data.cli", "Look at, check, convert and join recorded datasets."),
    "report": Entry("robomem.report.cli", "Make one HTML page of runs."),
    "doctor": Entry("robomem.doctor", "Show what this machine has and what it lacks."),
}


class LazyGroup(click.Group):
    """Lists its commands without importing them."""

    def __init__(self, *args: Any, entries: Mapping[str, Entry], **attributes: Any) -> None:
        super().__init__(*args, **attributes)
        self.entries = entries

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Names in the order of the table."""
        return list(self.entries)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import one command."""
        entry = self.entries.get(cmd_name)
        if entry is None:
            return None
        if entry.config is None:
            return importlib.import_module(entry.module).main
        from robomem.hydra_cli import HydraCommand

        return HydraCommand(cmd_name, entry.module, entry.config, entry.help)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the command; an unknown one is answered with the nearest."""
        if args and args[0] not in self.entries and not args[0].startswith("-"):
            raise click.UsageError(f"no command {args[0]!r}{nearest(args[0], self.entries)}")
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """List commands from the table."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, entry.help) for name, entry in self.entries.items()])


@click.group(cls=LazyGroup, entries=COMMANDS, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="robomem")
@click.option("--debug", is_flag=True, help="Show the traceback of every error (or set ROBOMEM_DEBUG=1).")
def robomem(debug: bool) -> None:
    """Memory for vision-language-action policies.

    `robomem COMMAND --help` tells a command's settings.
    """
    if debug:
        os.environ["ROBOMEM_DEBUG"] = "1"


def run(arguments: Sequence[str]) -> int:
    """Run one command line and return its exit status; errors a user can act on become one line on stderr."""
    try:
        status = robomem.main(list(arguments), prog_name="robomem", standalone_mode=False)
        return status if isinstance(status, int) else 0
    except (KeyboardInterrupt, click.Abort):
        click.echo("interrupted", err=True)
        return INTERRUPTED
    except click.exceptions.NoArgsIsHelpError as error:
        click.echo(error.format_message())
        return error.exit_code
    except click.ClickException as error:
        message, status = error.format_message(), error.exit_code
    except Exception as error:
        message, status = describe(error), 1
        if message is None or os.environ.get("ROBOMEM_DEBUG") == "1":
            raise
    click.echo("error: " + " ".join(message.split()), err=True)
    return status


def describe(error: Exception) -> str | None:
    """The message for an error with a known cause and fix, or None if it is a defect of the program."""
    if isinstance(error, RobomemError):
        return str(error)
    if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT):
        return f"no space left on the disk while writing {error.filename or 'a file'}; free some and run this again"
    if isinstance(error, ModuleNotFoundError) and error.name and error.name.split(".")[0] != "robomem":
        return f"the Python package {error.name.split('.')[0]!r} is missing; `make setup` installs all of them"
    if "omegaconf" in sys.modules:
        from robomem.hydra_cli import describe_config_error

        return describe_config_error(error)
    return None


def main() -> None:
    """Entry point of the console script."""
    # PyTorch puts large tensors in large pages: where page faults are dear, training on a CPU takes a tenth less time.
    os.environ.setdefault("THP_MEM_ALLOC_ENABLE", "1")
    sys.exit(run(sys.argv[1:]))
