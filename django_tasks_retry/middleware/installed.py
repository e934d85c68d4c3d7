"""Which middleware a backend has: found and made once in a process."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

from django.core.signals import setting_changed
from django.utils.module_loading import import_string

from ..conf import options
from ..errors import InvalidOptions
from .base import Middleware


@cache
def installed(alias: str) -> tuple[Middleware, ...]:
    """The backend's middleware, the outermost first. InvalidOptions where one cannot be made."""
    return tuple(make(path, alias) for path in options(alias).middleware)


def make(path: str, alias: str) -> Middleware:
    where = f"TASKS[{alias!r}]['OPTIONS']['MIDDLEWARE']"
    try:
        kind = import_string(path)
        made = kind() if isinstance(kind, type) else None
    except Exception as error:  # whatever the module or the constructor raises
        raise InvalidOptions(f"{where}: {path} cannot be used: {type(error).__name__}: {error}") from error
    if not isinstance(made, Middleware):
        raise InvalidOptions(f"{where}: {path} is no subclass of django_tasks_retry.middleware.Middleware.")
    return made


@cache
def hooks(alias: str, name: str) -> tuple[Callable[..., Any], ...]:
    """The methods of this name, of those that override it: without any nothing is made, entered or called."""
    plain = getattr(Middleware, name)
    return tuple(getattr(each, name) for each in installed(alias) if getattr(type(each), name) is not plain)


def forget(*, setting: str, **_: Any) -> None:
    if setting == "TASKS":
        installed.cache_clear()
        hooks.cache_clear()


setting_changed.connect(forget, dispatch_uid="django_tasks_retry.middleware")
