"""The search box: only what an index, or a bounded look back, can answer."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from uuid import UUID

from django.utils.translation import gettext_lazy as _

from ... import registry
from ...querysets import TaskQuerySet
from ...taskqueue import summaries

HELP = _("Search by id or the beginning of an id, queue:NAME, task:NAME, error:TEXT.")
QUALIFIED = re.compile(r"(?P<key>queue|task|error):(?P<value>\"[^\"]*\"|\S*)", re.IGNORECASE)
SHORTEST_PREFIX = 4


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
        return not (self.ids or self.queues or self.tasks or self.errors or self.unknown)


def parse(text: str) -> Search:
    search = Search()
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


def apply_search(tasks: TaskQuerySet, search: Search, *, has_status: bool) -> TaskQuerySet:
    """A search for an error means failed tasks, where no other status was chosen."""
    if search.unknown:
        return tasks.none()
    for first, last in search.ids:
        tasks = tasks.filter(pk__gte=first, pk__lte=last)
    if search.queues:
        tasks = tasks.filter(queue__in=search.queues)
    for name in search.tasks:
        tasks = tasks.filter(func_path__in=paths_named(name))
    for text in search.errors:
        tasks = tasks.filter(fingerprint__in=fingerprints_like(text, tasks.db))
    return tasks.failed() if search.errors and not has_status else tasks


def paths_named(name: str) -> list[str]:
    """Registered functions of that name, in whatever module; else the text as a whole path."""
    return [path for path in registry.known_paths() if path == name or path.endswith(f".{name}")] or [name]


def fingerprints_like(text: str, using: str) -> list[str]:
    """Those of the failures that mention the text."""
    wanted = text.lower()
    return [
        group.fingerprint
        for group in summaries.failure_groups(using)
        if wanted in f"{group.exception} {group.code} {group.message}".lower()
    ]
