"""Calls that were enqueued, compared with calls that a test expects."""

from __future__ import annotations

import difflib
import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from .. import registry
from ..compat import normalize_json
from ..errors import InvalidPayload
from ..models import Task
from ..payloads import is_hidden, opened_call
from ..registry import AnyTask
from ..rules.codec.values import Codec, written
from ..rules.names import path_of
from ..rules.payload import Place
from ..taskqueue.typed import typed_call

SHOWN = 10


@dataclass(frozen=True)
class Expected:
    """A call, as far as a test names it: what is left out may be anything."""

    task: AnyTask
    args: Sequence[Any] = ()
    kwargs: Mapping[str, Any] = field(default_factory=dict)
    queue: str | None = None
    priority: int | None = None

    @property
    def path(self) -> str:
        return path_of(self.task.func)

    def differences(self, row: Task) -> list[str]:
        """Return the differences between the row and this call, in words. Empty if it matches."""
        if row.func_path != self.path:
            return ["another task"]
        stored = arguments(self.task, *stored_call(row))
        wrong = [
            f"{name} is {shown(stored, name)}"
            for name, value in self.arguments().items()
            if name not in stored or as_stored(value) != stored[name]
        ]
        for name in ("queue", "priority"):
            wanted = getattr(self, name)
            if wanted is not None and getattr(row, name) != wanted:
                wrong.append(f"{name} is {getattr(row, name)!r}")
        return wrong

    def arguments(self) -> dict[str, Any]:
        typed = typed_call(self.task.func, takes_context=self.task.takes_context)
        given = typed.each(self.args, self.kwargs, written_if_it_fits) if typed else (self.args, self.kwargs)
        return arguments(self.task, *given)

    def __str__(self) -> str:
        where = "".join(
            f", {name} {value!r}" for name in ("queue", "priority") if (value := getattr(self, name)) is not None
        )
        return f"{rendered(self.path, self.arguments())}{where}"


def written_if_it_fits(codec: Codec | None, value: Any, where: Place) -> Any:
    """Return the value as it is stored; `mock.ANY`, say, as it is."""
    try:
        return written(codec, value, where)
    except InvalidPayload:
        return value


def shown(stored: Mapping[str, Any], name: str) -> str:
    return repr(stored[name]) if name in stored else "not given"


def as_stored(value: Any) -> Any:
    """Return the value as it would be read back; one that cannot be stored (`mock.ANY`, say) compares as it is."""
    try:
        return normalize_json(value)
    except (TypeError, ValueError):
        return value


def arguments(task: AnyTask, args: Sequence[Any], kwargs: Mapping[str, Any]) -> dict[str, Any]:
    """Return arguments by parameter, so that it does not matter how one was passed."""
    signature = inspect.signature(task.func)
    if task.takes_context:
        signature = signature.replace(parameters=list(signature.parameters.values())[1:])
    bound = signature.bind_partial(*args, **kwargs).arguments
    named: dict[str, Any] = {}
    for name, parameter in signature.parameters.items():
        if parameter.kind is parameter.VAR_KEYWORD:
            named |= bound.get(name, {})
        elif name in bound:
            named[name] = as_stored(bound[name])
    return named


def row_arguments(row: Task) -> dict[str, Any]:
    task = registry.find(row.func_path)
    args, kwargs = stored_call(row)
    try:
        return arguments(task, args, kwargs) if task else {"args": args, "kwargs": kwargs}
    except TypeError:  # the call does not fit the function
        return {"args": args, "kwargs": kwargs}


def stored_call(row: Task) -> tuple[Any, Any]:
    return opened_call(row) if is_hidden(row.kwargs) else (row.args, row.kwargs)


def rendered(path: str, named: Mapping[str, Any]) -> str:
    return f"{path.rpartition('.')[2]}({', '.join(f'{name}={value!r}' for name, value in named.items())})"


def expected_call(task: AnyTask | Callable[..., Any], *args: Any) -> Expected:
    return Expected(registry.resolve(task), *args)


def nearest_first(expected: Expected, rows: Iterable[Task]) -> list[Task]:
    """Calls of the same task first, then by how much their text looks like the expected one."""

    def distance(row: Task) -> tuple[bool, int, float]:
        text = rendered(row.func_path, row_arguments(row))
        alike = difflib.SequenceMatcher(None, str(expected), text).ratio()
        return row.func_path != expected.path, len(expected.differences(row)), -alike

    return sorted(rows, key=distance)


def listing(expected: Expected, rows: Sequence[Task]) -> str:
    """List the enqueued calls, the nearest match first, each with its differences."""
    if not rows:
        return "Nothing was enqueued."
    lines = [
        f"  {line_of(row)}  <- {'; '.join(expected.differences(row)) or 'matches'}"
        for row in nearest_first(expected, rows)
    ]
    rest = [f"  … and {len(lines) - SHOWN} more"] if len(lines) > SHOWN else []
    return "\n".join(["Enqueued, nearest match first:", *lines[:SHOWN], *rest])


def line_of(row: Task) -> str:
    return f"{rendered(row.func_path, row_arguments(row))}  queue={row.queue!r} priority={row.priority} {row.status}"
