"""Acting on tasks that others may keep locked, or whose rows may hold what cannot be read: one costs itself alone."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Protocol
from uuid import UUID

from django.db import DataError, OperationalError, connections, transaction

from ..models import Task
from ..querysets import TaskQuerySet
from .database import is_postgresql
from .database_errors import is_transient
from .lease import Unreadable, check_call, check_depth

logger = logging.getLogger("django_tasks_retry")
LOCK_SECONDS = 5.0
UNREADABLE = (ArithmeticError, DataError, RecursionError, TypeError, ValueError)


class Act(Protocol):
    """Does something with those of the tasks that are free; with all of them where it waits. Returns them."""

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
            done += within(left, using, partial(act, [pk], wait=True))
    return done


def locked(tasks: TaskQuerySet, ids: Sequence[UUID], *, wait: bool) -> list[UUID]:
    """Lock those of the tasks, in the order of their ids."""
    free = tasks.filter(pk__in=ids).order_by("pk").select_for_update(no_key=True, skip_locked=not wait)
    return list(free.values_list("pk", flat=True))


def within(seconds: float, using: str, act: Callable[[], list[UUID]]) -> list[UUID]:
    """What was acted on, or nothing where a lock was not to be had in this time."""
    try:
        with transaction.atomic(using=using):
            if is_postgresql(using):
                with connections[using].cursor() as cursor:
                    cursor.execute(f"SET LOCAL lock_timeout = {max(1, round(seconds * 1000))}")
            return act()
    except OperationalError as error:
        if not is_transient(error):
            raise
        return []


def repeatable(tasks: TaskQuerySet, ids: Sequence[UUID]) -> list[Task]:
    """Those of the tasks whose call can be read, and made again."""
    return [task for task in readable(tasks, ids) if is_sound(task)]


def is_sound(task: Task) -> bool:
    try:
        check_call(task)
        check_depth(task)
    except Unreadable:
        return False
    return True


def readable(tasks: TaskQuerySet, ids: Sequence[UUID]) -> list[Task]:
    """Those of the tasks whose rows can be read."""
    try:
        return list(tasks.filter(pk__in=ids).order_by("pk"))
    except UNREADABLE:
        return [task for pk in sorted(ids) for task in readable_one(tasks, pk)]


def readable_one(tasks: TaskQuerySet, pk: UUID) -> list[Task]:
    try:
        return list(tasks.filter(pk=pk))
    except UNREADABLE as error:
        logger.warning("task %s is passed over, for its row cannot be read: %s", pk, type(error).__name__)
        return []
