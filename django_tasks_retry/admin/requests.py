"""What every request to the console passes: no text that no row can hold, and no more time than it is given."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from django.db import DatabaseError
from django.http import HttpRequest, HttpResponse
from django.utils.translation import gettext as _

from .. import guard
from ..display.scope import console_database
from ..taskqueue.database_errors import is_missing_table
from .statement_timeout import is_timeout, statement_timeout

if TYPE_CHECKING:
    from .base import ConsoleAdmin

MAX_PARAMETER = 2000
View = Callable[..., HttpResponse]


def bounded(console: ConsoleAdmin, view: View, *, in_batches: bool = False) -> View:
    """The view, within limits. One that works in batches sets the time limit for each of them itself."""

    @functools.wraps(view)
    def limited(request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:
        if not all(map(is_storable, texts_of(request, kwargs))):
            text = _("The request holds a text that no task can hold: too long, or with characters that are none.")
            return console.render_notice(request, _("Bad request"), text, 400)
        try:
            if in_batches:
                return view(request, *args, **kwargs)
            with statement_timeout(console_database()):
                return view(request, *args, **kwargs)
        except DatabaseError as error:
            if is_timeout(error):
                return console.render_notice(request, _("This took too long"), too_slow_text())
            if is_missing_table(error) and not guard.has_tables(console_database()):
                return console.render_notice(request, _("Not migrated"), not_migrated_text(), 503)
            raise

    return limited


def too_slow_text() -> str:
    return _(
        "The database took too long to answer, and nothing was changed. Try again in a moment, or narrow the "
        "question: choose a status, a queue or a shorter period."
    )


def not_migrated_text() -> str:
    return _("The database does not have the tables of the task queue. Create them with: python manage.py migrate")


def texts_of(request: HttpRequest, kwargs: dict[str, Any]) -> Iterable[str]:
    """Whatever the user sent. A token is checked by its signature, and a reason is cut: they may be long."""
    yield from (str(value) for value in kwargs.values())
    for sent in (request.GET, request.POST):
        for name, values in sent.lists():
            yield name
            yield from (str(value)[: MAX_PARAMETER if name in {"reason", "token"} else None] for value in values)


def is_storable(text: str) -> bool:
    """Whether a database can be asked for it."""
    return len(text) <= MAX_PARAMETER and "\x00" not in text and not any("\ud800" <= char <= "\udfff" for char in text)
