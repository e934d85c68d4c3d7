"""Arguments and results without secrets, for console, command line and error reports."""

import inspect
import json
from collections.abc import Iterator, Mapping
from typing import Any

from django.http import HttpRequest
from django.utils.translation import gettext
from django.views.debug import get_exception_reporter_filter

from .. import registry
from ..models import Schedule, Task
from ..payloads import PAYLOAD, is_hidden
from ..rules.redact import MAX_ITEMS, redact_structure, redact_text
from .formatting import one_line, printable


def redact_value(name: str, value: Any, request: HttpRequest | None) -> Any:
    """Return the value without secrets at any depth, by our names and by Django's filter or the project's own."""
    if is_hidden(value):
        return describe_hidden(value[PAYLOAD])
    return redact_structure(name, value, get_exception_reporter_filter(request).cleanse_setting)


def describe_hidden(form: Mapping[str, Any]) -> str:
    """Say that a payload is encrypted, how large it is, and in which file it is stored."""
    kind = gettext("encrypted, %(size)s bytes") if form.get("encrypted") else gettext("%(size)s bytes")
    size = form.get("size")
    text = kind % {"size": f"{size:,}" if isinstance(size, int) else "?"}
    file = form.get("file")
    return text if file is None else gettext("%(text)s, in the file %(file)s") % {"text": text, "file": f"{file:.200}"}


def visible_reason(reason: object, *, can_see_payload: bool, limit: int = 200) -> str:
    """Return a reason for people who may see payload: it may quote anything."""
    return one_line(redact_text(str(reason or "")), limit) if can_see_payload else ""


def redacted_json(value: Any, request: HttpRequest | None, name: str = "", limit: int = 4000) -> str:
    """Return the redacted value as JSON. It is cut after the redaction: a cut could part a secret from its name."""
    shown = redact_value(name, value, request)
    return printable(json.dumps(shown, ensure_ascii=False, indent=2, default=str), limit)


def redacted_arguments(task: Task, request: HttpRequest | None) -> list[tuple[str, str]]:
    """Return name and value of each argument, by the function's signature if this process knows it."""
    return [
        (printable(redact_text(name), 100), redacted_json(value, request, name))
        for name, value in [*positional_arguments(task), *keyword_arguments(task)]
    ]


def holds_secrets(call: Task | Schedule, request: HttpRequest) -> bool:
    """Return whether arguments contain secrets. A form cannot edit these, because nobody may see them."""
    if is_hidden(call.kwargs):
        return True
    stored = {"args": call.args, "kwargs": call.kwargs}
    return json.dumps(redact_value("", stored, request), default=str) != json.dumps(stored, default=str)


def positional_arguments(task: Task) -> Iterator[tuple[str, Any]]:
    names = parameter_names(task.func_path)
    args = task.args if isinstance(task.args, list) else [task.args]
    for i, value in enumerate(args[:MAX_ITEMS]):
        yield (names[i] if i < len(names) else f"args[{i}]"), value


def keyword_arguments(task: Task) -> Iterator[tuple[str, Any]]:
    if is_hidden(task.kwargs):
        yield gettext("arguments"), task.kwargs
    elif isinstance(task.kwargs, dict):
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
