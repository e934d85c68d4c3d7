"""The search box: only what an index, or a bounded look back, can answer, and only what the user may see."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from uuid import UUID

from django.utils.translation import gettext_lazy as _

from ... import registry
from ...querysets import TaskQuerySet
from ...taskqueue.operator.failure_groups import GroupText, group_heads, group_texts
from ..display.redact import redact_text

HELP = _("Search by id or the beginning of an id, queue:NAME, task:NAME, error:TEXT.")
TOO_LONG = _("Search for at most %(words)s words and %(length)s characters.")
QUALIFIED = re.compile(r"(?P<key>queue|task|error):(?P<value>\"[^\"]*\"|\S*)", re.IGNORECASE)
SHORTEST_PREFIX = 4
MAX_WORDS = 10
MAX_LENGTH = 400
MAX_MESSAGE = 4000
"""Characters of an error's message that are searched."""


@dataclass(frozen=True, slots=True)
class Search:
    """The text of the search box, parsed."""

    ids: list[tuple[UUID, UUID]] = field(default_factory=list)
    queues: list[str] = field(default_factory=list)
    tasks: list[str] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)
    unknown: list[str] = field(default_factory=list)

    @property
    def has_index(self) -> bool:
        return bool(self.ids or self.errors)

    @property
    def is_empty(self) -> bool:
        return not self.words

    @property
    def is_too_long(self) -> bool:
        return self.words > MAX_WORDS

    @property
    def words(self) -> int:
        found = len(self.ids) + len(self.queues) + len(self.tasks)
        return found + len(self.errors) + len(self.unknown)


def parse(text: str) -> Search:
    search = Search()
    if len(text) > MAX_LENGTH:
        search.unknown.extend([text[:MAX_LENGTH]] * (MAX_WORDS + 1))
        return search
    qualified = {"queue": search.queues, "task": search.tasks, "error": search.errors}
    for match in QUALIFIED.finditer(text):
        qualified[match["key"].lower()].append(match["value"].strip('"'))
    for word in QUALIFIED.sub(" ", text).split():
        id_range = ids_beginning_with(word)
        if id_range:
            search.ids.append(id_range)
        else:
            search.unknown.append(word)
    return search


def ids_beginning_with(text: str) -> tuple[UUID, UUID] | None:
    """First and last id of a prefix: a range of the primary key."""
    digits = text.replace("-", "").lower()
    if not SHORTEST_PREFIX <= len(digits) <= 32 or re.fullmatch(r"[0-9a-f]+", digits) is None:
        return None
    return UUID(digits.ljust(32, "0")), UUID(digits.ljust(32, "f"))


def apply_search(tasks: TaskQuerySet, search: Search, *, has_status: bool, can_see_payload: bool) -> TaskQuerySet:
    """A search for an error means failed tasks, where no other status was chosen."""
    if search.unknown or search.is_too_long:
        return tasks.none()
    for first, last in search.ids:
        tasks = tasks.filter(pk__gte=first, pk__lte=last)
    if search.queues:
        tasks = tasks.filter(queue__in=search.queues)
    for name in search.tasks:
        tasks = tasks.filter(func_path__in=paths_named(name))
    if search.errors:
        tasks = tasks.filter(
            fingerprint__in=fingerprints_like(search.errors, tasks.db, can_see_payload=can_see_payload)
        )
    return tasks.failed() if search.errors and not has_status else tasks


def paths_named(name: str) -> list[str]:
    """Registered functions of that name, in whatever module; else the text as a whole path."""
    return [path for path in registry.known_paths() if path == name or path.endswith(f".{name}")] or [name]


def fingerprints_like(texts: Sequence[str], using: str, *, can_see_payload: bool) -> list[str]:
    """Those of the failures that mention all texts, in what the user may see of them. One question for all."""
    wanted = [text.lower() for text in texts]
    return [
        group.fingerprint
        for group in group_texts(group_heads(using), using)
        if all(text in visible_text(group, can_see_payload=can_see_payload) for text in wanted)
    ]


def visible_text(group: GroupText, *, can_see_payload: bool) -> str:
    message = redact_text(group.message[:MAX_MESSAGE]) if can_see_payload else ""
    return f"{group.exception} {group.code} {message}".lower()
