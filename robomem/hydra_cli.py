"""Hydra programs as subcommands, with concise help and one-line configuration errors."""

import contextlib
import importlib
import os
import re
import sys
from collections.abc import Iterator
from typing import Any

import click

from robomem.errors import nearest
from robomem.groups import CONFIGS, groups, options

_FLAGS = [
    ("KEY=VALUE, GROUP=OPTION", "set a value, choose an option"),
    ("--cfg job", "print the composed configuration and stop"),
    ("--multirun, -m", "run once for each of the comma-separated values"),
    ("--hydra-help", "all flags of Hydra"),
]


_HINTS = {"data.root": " (a dataset that `robomem collect` made), or choose an experiment=NAME that names one"}
"""What else brings a value that is missing."""


class HydraCommand(click.Command):
    """Hands all arguments to the Hydra program `main` of a module; only `--help` is answered here."""

    def __init__(self, name: str, module: str, config: str, help: str) -> None:
        super().__init__(
            name,
            callback=self._run,
            params=[click.Argument(["overrides"], nargs=-1, type=click.UNPROCESSED, metavar="[KEY=VALUE]...")],
            help=help,
            options_metavar="[FLAGS]",
            context_settings={"ignore_unknown_options": True, "help_option_names": ["-h", "--help"]},
        )
        self.module = module
        self.config = config

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """List the groups with their options, the settings with their values, and Hydra's most used flags."""
        groups, settings = _defaults(self.config)
        sections = {"Groups (default first)": groups, "Settings": settings, "Flags": _FLAGS}
        for title, rows in sections.items():
            if rows:
                with formatter.section(title):
                    formatter.write_dl(rows)

    def _run(self, overrides: tuple[str, ...]) -> None:
        self._refuse_dashes(overrides)
        program = importlib.import_module(self.module).main
        arguments, sys.argv = sys.argv, [f"robomem {self.name}", *overrides]
        # Hydra would print a traceback itself and exit; this way the exception arrives at the command line.
        os.environ["HYDRA_FULL_ERROR"] = "1"
        try:
            with _silent_failure():
                program()
        finally:
            sys.argv = arguments

    def _refuse_dashes(self, overrides: tuple[str, ...]) -> None:
        """Hydra would answer `--checkpoint=X` with the usage of its own flags."""
        from hydra._internal.utils import get_args_parser

        flags = {flag for action in get_args_parser()._actions for flag in action.option_strings}
        groups, settings = _defaults(self.config)
        known = {name for name, _ in (*groups, *settings)}
        for override in overrides:
            flag = override.split("=")[0]
            name = flag.removeprefix("--")
            if flag.startswith("--") and name.split(".")[0] in known:
                raise click.UsageError(f"settings have no dashes: {name}=VALUE in place of {override}")
            if flag.startswith("--") and flag not in flags:
                raise click.UsageError(f"no flag {flag}{nearest(flag, flags)}")
            if not flag.lstrip("+~"):
                raise click.UsageError(f"{override!r} names no setting; write KEY=VALUE")


def describe_config_error(error: Exception) -> str | None:
    """The key at fault and the nearest valid one for an error of Hydra or OmegaConf; None for other errors."""
    from hydra.errors import HydraException, MissingConfigException
    from omegaconf.errors import OmegaConfBaseException

    if not isinstance(error, HydraException | OmegaConfBaseException):
        return None
    if isinstance(error, MissingConfigException) and error.missing_cfg_file:
        group, _, option = error.missing_cfg_file.rpartition("/")
        return f"{group or 'configuration'} has no option {option!r}{nearest(option, error.options or ())}"
    cause = next((e for e in _chain(error) if isinstance(e, OmegaConfBaseException) and e.full_key), None)
    if cause is None:
        return _unknown_group(str(error)) or str(error).split("\nSee ")[0]
    return _describe_key(cause, first_line=str(cause).splitlines()[0])


def _describe_key(cause: Any, first_line: str) -> str:
    """Message for an OmegaConf error that knows its key and the node that should have it."""
    from omegaconf.errors import ConfigAttributeError, ConfigKeyError, MissingMandatoryValue

    key = cause.full_key
    if isinstance(cause, MissingMandatoryValue):
        return f"{key} has no value; set it with {key}=VALUE{_HINTS.get(key, '')}"
    if isinstance(cause, ConfigKeyError | ConfigAttributeError):
        valid = [str(name) for name in cause.parent_node or () if name != "hydra"]
        return f"unknown configuration key {key!r}{nearest(str(cause.key), valid)}"
    return f"{key}: {first_line}"


def _unknown_group(message: str) -> str | None:
    match = re.search(r"Could not override '([^']+)'. No match", message)
    return match and f"unknown configuration group {match[1]!r}{nearest(match[1], groups())}"


def _chain(error: BaseException | None) -> Iterator[BaseException]:
    while error is not None:
        yield error
        error = error.__cause__ or error.__context__


@contextlib.contextmanager
def _silent_failure() -> Iterator[None]:
    """Keep Hydra from announcing a failed job on stderr before the exception is raised."""
    from hydra.core.utils import JobReturn, JobStatus

    announcing: Any = JobReturn.return_value

    def return_value(job: JobReturn) -> Any:
        if job.status is JobStatus.FAILED:
            raise job._return_value
        return announcing.fget(job)

    JobReturn.return_value = property(return_value, announcing.fset)  # type: ignore[misc]
    try:
        yield
    finally:
        JobReturn.return_value = announcing


def _defaults(config: str) -> tuple[list[tuple[str, str]], list[tuple[str, str]]]:
    """Groups with their options, and settings with their values, of a primary configuration."""
    import yaml

    text = (CONFIGS / f"{config}.yaml").read_text()
    settings = yaml.safe_load(text)
    choices = []
    for entry in settings.pop("defaults", []):
        for key, chosen in entry.items() if isinstance(entry, dict) else ():
            group = key.split("@")[0].removeprefix("optional ").lstrip("/")
            others = [option for option in options(group) if option != chosen]
            if others or chosen:
                choices.append((group, ", ".join([str(chosen), *others] if chosen else others)))
    return choices, [(key, _show(value)) for key, value in settings.items() if key != "hydra"]


def _show(value: Any) -> str:
    import yaml

    return yaml.safe_dump(value, default_flow_style=True, sort_keys=False, width=10**6).removesuffix("\n...\n").strip()
