"""Searching in arguments and metadata: by their text in the database, then in what people may see of them.

No index serves it, since every enqueue would pay for one: it is a bounded look back. Secrets are hidden before a value
is compared, so that nobody can find out by trying what no page would show.
"""

import json
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from django.db.models import Q, TextField
from django.db.models.functions import Cast
from django.db.models.lookups import IContains

from ..display.redact import keyword_arguments, positional_arguments, redact_value
from ..models import Task, TaskQuerySet
from ..taskqueue.reading import read_rows
from .grammar import PayloadTerm, Query

PAGE = 200  # rows whose payload is held at a time
PLAIN = re.compile(r"[ !#-\[\]-~]+")
"""Characters that stand in JSON as they are, whoever wrote it."""

COLUMNS = ("id", "func_path", "args", "kwargs", "metadata")
Leaf = tuple[str, Any]


@dataclass(frozen=True, slots=True)
class Found:
    """Tasks that match, in the order of the candidates; `reached` is the last that was looked at, if there are more."""

    ids: list[UUID]
    reached: UUID | None


def holds_texts(query: Query) -> Q:
    """Match tasks that hold the texts anywhere, which is all that the database can tell."""
    condition = Q()
    for term in query.args:
        condition &= holds("args", term) | holds("kwargs", term)
    for term in query.metas:
        condition &= holds("metadata", term)
    return condition


def holds(column: str, term: PayloadTerm) -> Q:
    runs = PLAIN.findall(term.text)
    if not runs:
        return Q(pk__isnull=False)
    return Q(IContains(Cast(column, TextField()), max(runs, key=len)))


def find_visible(tasks: TaskQuerySet, query: Query, limit: int) -> Found:
    """Return those of the first `limit` candidates that match in what may be seen of them."""
    candidates = list(tasks.values_list("pk", flat=True)[: limit + 1])
    looked_at = candidates[:limit]
    matching = matching_ids(looked_at, query, tasks.db)
    more = len(candidates) > limit
    return Found([pk for pk in looked_at if pk in matching], looked_at[-1] if more else None)


def matching_ids(ids: Sequence[UUID], query: Query, using: str) -> set[UUID]:
    found: set[UUID] = set()
    for start in range(0, len(ids), PAGE):
        page = Task.objects.using(using).filter(pk__in=ids[start : start + PAGE]).only(*COLUMNS)
        found.update(task.pk for task in read_rows(page, COLUMNS) if matches(task, query))
    return found


def matches(task: Task, query: Query) -> bool:
    arguments = list(visible_arguments(task)) if query.args else []
    metadata = list(visible_leaves("", task.metadata)) if query.metas else []
    return all(is_met(term, arguments) for term in query.args) and all(is_met(term, metadata) for term in query.metas)


def visible_arguments(task: Task) -> Iterator[Leaf]:
    for name, value in [*positional_arguments(task), *keyword_arguments(task)]:
        yield from visible_leaves(name, value)


def visible_leaves(name: str, value: Any) -> Iterator[Leaf]:
    return leaves(name, redact_value(name, value, None))


def leaves(path: str, value: Any) -> Iterator[Leaf]:
    """Path and value of whatever is no list and no mapping."""
    if isinstance(value, dict):
        for key, each in value.items():
            yield from leaves(f"{path}.{key}" if path else str(key), each)
    elif isinstance(value, list):
        for n, each in enumerate(value):
            yield from leaves(f"{path}.{n}" if path else str(n), each)
    else:
        yield path, value


def is_met(term: PayloadTerm, found: Iterable[Leaf]) -> bool:
    return any(is_path(term.path, path) and is_value(term.text, value) for path, value in found)


def is_path(asked: str, path: str) -> bool:
    """The path, or its end; places in lists may be left out."""
    if not asked:
        return True
    without_places = ".".join(part for part in path.split(".") if not part.isdigit())
    return any(f".{each}".endswith(f".{asked}") for each in (path, without_places))


def is_value(text: str, value: Any) -> bool:
    """A text that contains it, in whatever case; of a number, a truth value or null, all of it."""
    if isinstance(value, str):
        return text.lower() in value.lower()
    return text.lower() == json.dumps(value).lower()
