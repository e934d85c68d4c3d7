"""The search box: the grammar of `selection`, within the limits of a request and of what the user may see."""

from __future__ import annotations

from django.utils.translation import gettext as _

from ...querysets import TaskQuerySet
from ...selection import grammar
from ...selection.grammar import HELP, Query
from ...selection.matching import has_index, matching
from ...selection.payload import Found, find_visible

__all__ = ["HELP", "Query", "apply_search", "find_visible_tasks", "has_index", "parse", "problems"]

MAX_WORDS = 10
MAX_LENGTH = 400
MAX_CANDIDATES = 2000
"""Tasks whose arguments or metadata are looked at for one page."""


def parse(text: str) -> Query:
    if len(text) <= MAX_LENGTH:
        query = grammar.parse(text)
        if query.words <= MAX_WORDS:
            return query
    values = {"words": MAX_WORDS, "length": MAX_LENGTH}
    return Query(problems=[_("Search for at most %(words)s words and %(length)s characters.") % values], words=1)


def problems(query: Query, *, can_see_payload: bool) -> list[str]:
    """Why a search finds nothing, and what to type instead."""
    if query.has_payload and not can_see_payload:
        forbidden = _("You may not see arguments and metadata, so you cannot search in them.")
        return [*query.problems, forbidden]
    return query.problems


def apply_search(tasks: TaskQuerySet, query: Query, *, has_status: bool, can_see_payload: bool) -> TaskQuerySet:
    return matching(tasks, query, has_status=has_status, can_see_payload=can_see_payload)


def find_visible_tasks(tasks: TaskQuerySet, query: Query) -> Found:
    """Of the newest candidates, those that match in what the user may see of them."""
    return find_visible(tasks.order_by("-pk"), query, MAX_CANDIDATES)
