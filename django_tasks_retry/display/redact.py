"""Arguments, results and texts without secrets, which nobody sees, whatever their permissions."""

from __future__ import annotations

import inspect
import json
from collections.abc import Iterator, Mapping
from typing import Any

from django.http import HttpRequest
from django.views.debug import get_exception_reporter_filter

from .. import registry
from ..models import Task
from .formatting import one_line, printable
from .secret_names import is_secret_name
from .secret_texts import HIDDEN, redact_text

__all__ = ["redact_text", "redact_value", "redacted_arguments", "redacted_json", "visible_reason"]

VALUE_LIMIT = 4000
MAX_DEPTH = 30
MAX_ITEMS = 1000
"""Of a list or a mapping; what lies deeper or further on is left out."""

NAMING_KEYS = ("name", "key", "header", "field")
"""Where one key of a mapping holds the name of what another holds: {"name": "password", "value": …}."""


def redact_value(name: str, value: Any, request: HttpRequest | None, depth: int = 0) -> Any:
    """Without what is named like a secret, at any depth. By Django's filter too, or the project's own in its place."""
    cleanse = get_exception_reporter_filter(request).cleanse_setting
    if not isinstance(value, Mapping | list | tuple):
        cleansed = HIDDEN if is_secret_name(name) else cleanse(name, value)
        return redact_text(cleansed) if isinstance(cleansed, str) else cleansed
    if is_secret_name(name) or cleanse(name, "") != "":
        return HIDDEN
    if depth == MAX_DEPTH:
        return "…"
    if isinstance(value, Mapping):
        return {key: redact_value(key, each, request, depth + 1) for key, each in named_items(value)}
    return [redact_value(key, each, request, depth + 1) for key, each in paired_items(value)]


def visible_reason(reason: object, *, can_see_payload: bool, limit: int = 200) -> str:
    """What a person or a task gave as a reason may quote anything: it is payload."""
    return one_line(redact_text(str(reason or "")), limit) if can_see_payload else ""


def named_items(value: Mapping[Any, Any]) -> Iterator[tuple[str, Any]]:
    """Key and value; the value is hidden where a sibling names it as a secret."""
    named = any(is_secret_name(str(value.get(key) or "")) for key in NAMING_KEYS)
    for key, each in list(value.items())[:MAX_ITEMS]:
        yield redact_text(str(key)), HIDDEN if named and str(key) not in NAMING_KEYS else each


def paired_items(value: list[Any] | tuple[Any, ...]) -> Iterator[tuple[str, Any]]:
    """Items, without names; but the second of a pair is named by the first: ["X-Api-Key", …]."""
    is_pair = len(value) == 2 and isinstance(value[0], str)
    for n, each in enumerate(value[:MAX_ITEMS]):
        yield (value[0] if is_pair and n == 1 else ""), each


def redacted_json(value: Any, request: HttpRequest | None, name: str = "", limit: int = VALUE_LIMIT) -> str:
    """Redacted as a whole, and only then cut: a cut could part a secret from its name."""
    shown = redact_value(name, value, request)
    return printable(json.dumps(shown, ensure_ascii=False, indent=2, default=str), limit)


def redacted_arguments(task: Task, request: HttpRequest | None) -> list[tuple[str, str]]:
    """Name and value of each argument, by the function's signature where this process knows it."""
    return [
        (printable(redact_text(name), 100), redacted_json(value, request, name))
        for name, value in [*positional_arguments(task), *keyword_arguments(task)]
    ]


def positional_arguments(task: Task) -> Iterator[tuple[str, Any]]:
    names = parameter_names(task.func_path)
    args = task.args if isinstance(task.args, list) else [task.args]
    for i, value in enumerate(args[:MAX_ITEMS]):
        yield (names[i] if i < len(names) else f"args[{i}]"), value


def keyword_arguments(task: Task) -> Iterator[tuple[str, Any]]:
    if isinstance(task.kwargs, dict):
        yield from list(task.kwargs.items())[:MAX_ITEMS]
    else:
        yield "kwargs", task.kwargs


def parameter_names(func_path: str) -> list[str]:
    known = registry.find(func_path)
    if known is None:
        return []
    kinds = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    names = [each.name for each in inspect.signature(known.func).parameters.values() if each.kind in kinds]
    return names[1:] if known.takes_context else names
