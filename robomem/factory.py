"""Build objects from configuration: `_target_` names a class within an allow-list, the other keys are its arguments."""

import importlib
import inspect
import math
import pkgutil
from collections.abc import Callable, Mapping
from functools import partial
from types import ModuleType
from typing import Any, TypeGuard

from robomem.errors import RobomemError, nearest

TARGET = "_target_"
PARTIAL = "_partial_"
"""As in Hydra: with `true`, what is built is a function of the arguments that are still missing."""

_KINDS: Mapping[type, tuple[Callable[[Any], bool], str]] = {
    bool: (lambda value: isinstance(value, bool), "true or false"),
    int: (lambda value: type(value) is int and value > 0, "a whole number from 1 up"),
    float: (lambda value: type(value) in (int, float) and 0 <= value < math.inf, "a number from 0 up"),
}
"""What a setting may be, by the annotation of its argument: whole numbers are sizes and counts."""

_REFUSALS = (ArithmeticError, MemoryError, RuntimeError, TypeError, ValueError)
"""What a constructor raises when it can do nothing with its settings."""


def instantiate(config: Mapping[str, Any], allow: str = "robomem.policies", **extra: Any) -> Any:
    """An object of the class that `_target_` names, made with the other values.

    Args:
        config: Plain values; mappings within it that have a `_target_` of their own are built first.
        allow: Package that targets must be defined in.
        **extra: Arguments that are no configuration, such as sizes that follow from another part.

    Raises:
        RobomemError: a class or an argument that does not exist (the nearest that does is named), one outside
            `allow`, a missing argument, a value that is not what the argument's annotation says (`int`: from 1 up,
            `float`: from 0 up), or values that the class can do nothing with.
    """
    path = config.get(TARGET) if isinstance(config, Mapping) else None
    if not isinstance(path, str):
        raise RobomemError(f"{config!r} has no {TARGET}; name a class, for example {TARGET}: {allow}.module.Class")
    target = _find(path, allow)
    if doubled := sorted(config.keys() & extra.keys()):
        raise RobomemError(
            f"{path}: {', '.join(doubled)} follows from other settings; remove it from the configuration"
        )
    arguments = {key: _build(value, allow) for key, value in config.items() if key not in (TARGET, PARTIAL)}
    _check_names(path, target, arguments | extra)
    check_kinds(path, target, arguments)
    if config.get(PARTIAL):
        return partial(_call, path, target, arguments, **extra)
    _check_complete(path, target, arguments | extra)
    return _call(path, target, arguments, **extra)


def check_kinds(path: str, target: type, settings: Mapping[str, Any]) -> None:
    """Raise unless every setting is what the annotation of its argument says (see `instantiate`).

    Args:
        path: Names the target in the message.
        target: The class whose arguments are annotated.
        settings: Values by argument; others are not looked at.

    Raises:
        RobomemError: a value of another kind.
    """
    for name, parameter in inspect.signature(target).parameters.items():
        fits, kind = _KINDS.get(parameter.annotation, (lambda _: True, ""))
        if name in settings and not fits(settings[name]):
            raise RobomemError(f"{path}: {name}={settings[name]} must be {kind}")


def _build(value: Any, allow: str) -> Any:
    """A value in which every mapping with a target is built."""
    if isinstance(value, Mapping):
        if TARGET in value:
            return instantiate(value, allow)
        return {key: _build(item, allow) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_build(item, allow) for item in value]
    return value


def _call(path: str, target: Callable[..., Any], settings: Mapping[str, Any], /, *arguments: Any, **extra: Any) -> Any:
    """Call a class with its settings; that it can do nothing with them is a mistake of who chose them."""
    try:
        return target(*arguments, **settings, **extra)
    except _REFUSALS as error:
        chosen = ", ".join(f"{key}={value}" for key, value in settings.items() if not callable(value))
        reason = str(error).split("\n")[0] or type(error).__name__
        raise RobomemError(
            f"{path} cannot be built with {chosen or 'these parts'} ({reason}); choose others"
        ) from error


def _find(path: str, allow: str) -> type:
    """Import `package.module.Name`."""
    if not path.startswith(f"{allow}.") or not all(map(str.isidentifier, path.split("."))):
        raise RobomemError(f"{TARGET}: {path!r} is not within {allow}; only what is defined there can be built")
    module_name, _, name = path.rpartition(".")
    module = _import(module_name, path, allow)
    found = getattr(module, name, None)
    if not _is_class_within(found, allow):
        names = [key for key, value in vars(module).items() if key[0] != "_" and _is_class_within(value, allow)]
        raise RobomemError(f"{TARGET}: {module_name} has no class {name!r}{nearest(name, names)}")
    return found


def _import(name: str, path: str, allow: str) -> ModuleType:
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        missing = error.name or name
        if name != missing and not name.startswith(f"{missing}."):
            raise RobomemError(f"{path} needs the Python package {missing!r}; install it") from error
        parent, _, last = missing.rpartition(".")
        if not missing.startswith(f"{allow}."):
            raise
        siblings = [
            module.name for module in pkgutil.iter_modules(getattr(_import(parent, path, allow), "__path__", []))
        ]
        raise RobomemError(
            f"{TARGET}: there is no {path!r}: {parent} has no {last!r}{nearest(last, siblings)}"
        ) from None


def _is_class_within(value: Any, allow: str) -> TypeGuard[type]:
    return isinstance(value, type) and value.__module__.startswith(f"{allow}.")


def _check_names(path: str, target: type, arguments: Mapping[str, Any]) -> None:
    """Raise unless the target's signature has every argument."""
    parameters = inspect.signature(target).parameters
    if any(p.kind is p.VAR_KEYWORD for p in parameters.values()):
        return
    for name in arguments:
        if name not in parameters:
            raise RobomemError(f"{path} has no argument {name!r}{nearest(name, parameters)}")


def _check_complete(path: str, target: type, arguments: Mapping[str, Any]) -> None:
    """Raise unless every argument that the target's signature needs is there."""
    parameters = inspect.signature(target).parameters
    required = [
        n for n, p in parameters.items() if p.default is p.empty and p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY)
    ]
    if missing := [name for name in required if name not in arguments]:
        raise RobomemError(f"{path} needs a value for {', '.join(missing)}; add it beside its {TARGET}")
