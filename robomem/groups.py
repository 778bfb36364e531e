"""What there is to choose from in `configs/`."""

from importlib import resources

CONFIGS = resources.files("robomem.configs")
_NO_GROUPS = ("_", "mapping")
"""Beginnings of the names of other folders; mappings tell what the fields of datasets mean."""


def groups() -> list[str]:
    """Names of the groups of options."""
    return [entry.name for entry in CONFIGS.iterdir() if entry.is_dir() and not entry.name.startswith(_NO_GROUPS)]


def options(group: str) -> list[str]:
    """Names of the options of a group, sorted; none if there is no such group."""
    folder = CONFIGS / group
    files = [entry.name for entry in folder.iterdir()] if folder.is_dir() else []
    return sorted(name.removesuffix(".yaml") for name in files if name.endswith(".yaml"))
