"""Arguments, results and texts without secrets, which nobody sees, whatever their permissions."""

from __future__ import annotations

import inspect
import json
import re
from collections.abc import Iterator
from typing import Any

from django.http import HttpRequest
from django.views.debug import SafeExceptionReporterFilter, get_exception_reporter_filter

from ... import registry
from ...models import Task
from .formatting import printable

# In texts there are no keys to go by, so what is written like one: password=…, "token": …
# A name begins at the edge of a word and is not endless, so that a flood of letters is read only once.
NAMED_SECRET = re.compile(
    r"(?i)(?<![\w-])(?P<key>[\w-]{0,40}?(?:api|auth|token|key|secret|pass|signature|cookie)[\w-]{0,40})"
    r"(?P<sign>[\"']?\s{0,8}[=:]\s{0,8})(?P<value>\"[^\"\n]*\"|'[^'\n]*'|(?:Bearer |Basic )?[^\s,;&)\]}\"']+)"
)
VALUE_LIMIT = 4000


def cleanse(name: str, value: Any, request: HttpRequest) -> Any:
    """By Django's own filter, or the one that the project put in its place."""
    return get_exception_reporter_filter(request).cleanse_setting(name, value)


def redact_text(text: str) -> str:
    """A text without the values of what is named like a secret."""
    hidden = SafeExceptionReporterFilter.cleansed_substitute
    return NAMED_SECRET.sub(lambda match: f"{match['key']}{match['sign']}{hidden}", text)


def redacted_json(value: Any, limit: int = VALUE_LIMIT) -> str:
    return redact_text(printable(json.dumps(value, ensure_ascii=False, indent=2, default=str), limit))


def redacted_arguments(task: Task, request: HttpRequest) -> list[tuple[str, str]]:
    """Name and value of each argument, by the function's signature where this process knows it."""
    return [
        (printable(name, 100), redacted_json(cleanse(name, value, request)))
        for name, value in [*positional_arguments(task), *task.kwargs.items()]
    ]


def positional_arguments(task: Task) -> Iterator[tuple[str, Any]]:
    names = parameter_names(task.func_path)
    for i, value in enumerate(task.args):
        yield (names[i] if i < len(names) else f"args[{i}]"), value


def parameter_names(func_path: str) -> list[str]:
    known = registry.find(func_path)
    if known is None:
        return []
    kinds = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    names = [each.name for each in inspect.signature(known.func).parameters.values() if each.kind in kinds]
    return names[1:] if known.takes_context else names
