"""Check that workers will find a task: in a module that they import at their start, or that one imports."""

import sys
from collections.abc import Callable, Iterator
from functools import cache
from typing import Any

from django.apps import apps

from ... import registry
from ...compat import DEFAULT_TASK_BACKEND_ALIAS
from ...conf import configured_backends


def will_be_found(function: Callable[..., Any]) -> bool:
    module = function.__module__
    return module in registry.imported_by_workers() or module in reachable(module.partition(".")[0])


@cache
def reachable(package: str) -> frozenset[str]:
    """Modules of this package that workers import by way of others.

    Read from the modules' code, not from import order: views may have come first.
    """
    found: set[str] = set()
    waiting = list(registry.imported_by_workers())
    while waiting:
        name = waiting.pop()
        new = {each for each in imports_of(name) if each.partition(".")[0] == package} - found
        found |= new
        waiting += new
    return frozenset(found)


def imports_of(name: str) -> Iterator[str]:
    """Yield modules that the top level of this one imports. Imports inside functions come too late."""
    names = names_in(name)
    places = [name, *parents_of(name)]
    yield from places[1:]
    bases = [each for word in names for each in (word, *(f"{place}.{word}" for place in places)) if each in sys.modules]
    yield from bases
    yield from (each for base in bases for word in names if (each := f"{base}.{word}") in sys.modules)


def names_in(name: str) -> tuple[str, ...]:
    loader = getattr(getattr(sys.modules.get(name), "__spec__", None), "loader", None)
    try:
        code = loader.get_code(name) if loader else None
    except (AttributeError, ImportError, SyntaxError):  # not made of Python code, or no longer
        code = None
    return tuple(word for word in code.co_names if word) if code else ()


def parents_of(name: str) -> list[str]:
    parts = name.split(".")
    return [".".join(parts[:length]) for length in range(len(parts) - 1, 0, -1)]


def app_not_installed(module: str) -> str:
    """Return the package of this `tasks` module if it is no installed app."""
    package, _, last = module.rpartition(".")
    return package if last == "tasks" and not apps.is_installed(package) else ""


def discovery_reason(module: str) -> str:
    app = app_not_installed(module)
    if app:
        return f"{app} is not in INSTALLED_APPS"
    return "no tasks module of an installed app imports it"


def discovery_advice(module: str) -> str:
    app = app_not_installed(module)
    if app:
        return f"Add {app!r} to INSTALLED_APPS, and restart the workers."
    alias = next(iter(configured_backends()), DEFAULT_TASK_BACKEND_ALIAS)
    return (
        f"Add {module!r} to TASKS[{alias!r}]['OPTIONS']['TASK_MODULES'], or import it in the tasks.py of an app, "
        "and restart the workers."
    )
