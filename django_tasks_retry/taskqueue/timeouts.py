"""Time limits: for locks that others keep on tasks, and for the statements of a web request."""

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any, Protocol
from uuid import UUID

from django.db import OperationalError, connections, transaction

from ..models.querysets import TaskQuerySet
from .database import is_transient
from .engines import engine_for

LOCK_SECONDS = 5.0
STATEMENT_SECONDS = 3.0  # the limit of a single statement that a web request sends
REQUEST_SECONDS = 10.0  # all statements of a request together: after that no further one is begun
QUERY_CANCELED = "57014"


class Act(Protocol):
    """Acts on the tasks that are not locked, or on all if it waits. Returns them."""

    def __call__(self, ids: Sequence[UUID], *, wait: bool) -> list[UUID]: ...


def until_free(tasks: TaskQuerySet, ids: Sequence[UUID], act: Act) -> list[UUID]:
    """Act on all that nobody keeps locked, then wait for the rest, `LOCK_SECONDS` in all. Returns the tasks.

    Inside a transaction of the caller's it waits from the beginning, for as long as that may. Either way locks are
    taken in the order of the ids, and none is kept while waiting for an earlier one, so that nobody can deadlock.
    """
    using = tasks.db
    must_wait = connections[using].in_atomic_block
    with transaction.atomic(using=using):
        done = act(ids, wait=must_wait)
    if must_wait or len(done) == len(ids):
        return done
    give_up_at = time.monotonic() + LOCK_SECONDS
    for pk in list(tasks.filter(pk__in=ids).order_by("pk").values_list("pk", flat=True)):
        left = give_up_at - time.monotonic()
        if left > 0:
            done += with_lock_timeout(left, using, partial(act, [pk], wait=True))
    return done


def locked(tasks: TaskQuerySet, ids: Sequence[UUID], *, wait: bool) -> list[UUID]:
    """Lock those of the tasks, in the order of their ids."""
    free = tasks.filter(pk__in=ids).order_by("pk").select_for_update(no_key=True, skip_locked=not wait)
    return list(free.values_list("pk", flat=True))


def with_lock_timeout(seconds: float, using: str, act: Callable[[], list[UUID]]) -> list[UUID]:
    """Return the tasks that were acted on; none if a lock could not be taken in this time."""
    try:
        with transaction.atomic(using=using):
            engine_for(using).limit_locks(seconds)
            return act()
    except OperationalError as error:
        if not is_transient(error):
            raise
        return []


class TooSlow(OperationalError):
    """The request has used up its time."""


@contextmanager
def statement_timeout(using: str, seconds: float | None = None, whole: float | None = None) -> Iterator[None]:
    """Cancel statements inside that take longer than `seconds`, and all of them after `whole` seconds.

    `is_timeout` recognises the errors that they raise.
    """
    limit = STATEMENT_SECONDS if seconds is None else seconds
    whole = REQUEST_SECONDS + limit if whole is None else whole
    with engine_for(using).limit_statements(limit, whole), connections[using].execute_wrapper(RequestDeadline(whole)):
        yield


class RequestDeadline:
    """Refuses statements from a moment on."""

    def __init__(self, seconds: float) -> None:
        self.at = time.monotonic() + seconds

    def __call__(self, execute: Callable[..., Any], *statement: Any) -> Any:
        if time.monotonic() > self.at:
            raise TooSlow("This request has asked the database for too long.")
        return execute(*statement)


def is_timeout(error: BaseException) -> bool:
    """Return whether the database gave up for lack of time, and not for trouble of its own."""
    cause = error.__cause__
    return isinstance(error, TooSlow) or getattr(cause, "sqlstate", "") == QUERY_CANCELED or str(error) == "interrupted"
