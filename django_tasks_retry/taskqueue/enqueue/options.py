"""Options of an enqueue: what a caller asks for, not yet checked."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from difflib import get_close_matches
from types import MappingProxyType
from typing import Any, NamedTuple

from ...errors import UnknownOption
from ...rules.backoff import BackoffLike
from ...rules.calls import Call

NO_ARGUMENTS: tuple[Any, ...] = ()
NOTHING: Mapping[str, Any] = MappingProxyType({})

ALIASES = {"run_after": "eta", "queue_name": "queue"}  # names of `django.tasks` that are accepted, too
OPTIONS_ELSEWHERE = {
    **ALIASES,
    "countdown": "eta=timedelta(seconds=…)",
    "delay": "eta=timedelta(seconds=…)",
    "headers": "metadata",
    "max_retries": "max_attempts",
    "retries": "max_attempts",
    "routing_key": "queue",
    "run_at": "eta",
    "schedule": "eta",
    "soft_time_limit": "timeout",
    "task_id": "unique_key",
    "time_limit": "timeout",
}
"""Options of `Task.objects.enqueue()` by the names that other queues give them."""


class EnqueueOptions(NamedTuple):
    """A call and its options. None means: as the task's policy says, else the backend's default."""

    func: Callable[..., Any]
    args: Iterable[Any] = NO_ARGUMENTS
    kwargs: Mapping[str, Any] = NOTHING
    eta: datetime | timedelta | None = None
    queue: str | None = None
    priority: int | None = None
    max_attempts: int | None = None
    backoff: BackoffLike | None = None
    timeout: float | timedelta | None = None
    interval: float | timedelta = 0
    unique_key: str | None = None
    metadata: Mapping[str, Any] = NOTHING
    backend: str | None = None
    lane: str | None = None
    expires: datetime | timedelta | None = None
    on_conflict: str | None = None
    debounce: float | timedelta | None = None
    debounce_max: float | timedelta | None = None
    deadline: datetime | timedelta | None = None
    unique_for: float | timedelta | None = None
    on_failure: Any = None
    shard_key: str | None = None

    @classmethod
    def with_options(cls, func: Any, **options: Any) -> EnqueueOptions:
        """Accept the names of `django.tasks`, too. UnknownOption says what another name is called here."""
        given = without_aliases(options)
        for name in given:
            if name not in cls._fields:
                raise UnknownOption(unknown_option(name, cls._fields[3:], func))
        return cls(func, **given)

    @classmethod
    def read(cls, item: Any) -> EnqueueOptions:
        """Read one item of `enqueue_many`."""
        if type(item) is tuple:
            return cls(*item)
        match item:
            case EnqueueOptions():
                return item
            case Call(func, args, kwargs, options):
                return cls.with_options(func, args=args, kwargs=kwargs, **options)
            case dict() | Mapping():
                return cls.with_options(**item)
            case (func, *rest):
                return cls(func, *rest)
            case _:
                return cls(item)


FIRST_OPTIONAL = EnqueueOptions._fields.index("expires")
OPTIONAL = EnqueueOptions._fields[FIRST_OPTIONAL:]  # options that few calls have
NONE_OPTIONAL = (None,) * len(OPTIONAL)


def optional_options(options: EnqueueOptions) -> dict[str, Any]:
    return {name: value for name, value in zip(OPTIONAL, options[FIRST_OPTIONAL:], strict=True) if value is not None}


def without_aliases(options: Mapping[str, Any]) -> dict[str, Any]:
    """The options by our names. UnknownOption if one is given by both names."""
    for alias, name in ALIASES.items():
        if alias in options and name in options:
            raise UnknownOption(f"{alias}= and {name}= are the same option. Give one of them.")
    return {ALIASES.get(name, name): value for name, value in options.items()}


def as_option(name: str) -> str:
    option = OPTIONS_ELSEWHERE[name]
    return option if "=" in option else f"{option}=…"


def unknown_option(name: str, known: Sequence[str], function: Any) -> str:
    """Say what to write instead of an option that `Task.objects.enqueue()` does not have."""
    if name in parameters_named(function):
        return f"{name}= is an argument of the function: give it as kwargs={{{name!r}: …}}."
    if OPTIONS_ELSEWHERE.get(name):
        return f"Unknown option {name}=. Did you mean {as_option(name)}?"
    close = get_close_matches(name, known, n=1)
    hint = f"Did you mean {close[0]}=?" if close else f"The options are {', '.join(known)}."
    return f"Unknown option {name}=. {hint}"


def parameters_named(function: Any) -> set[str]:
    try:
        return set(inspect.signature(getattr(function, "func", function)).parameters)
    except (TypeError, ValueError):
        return set()
