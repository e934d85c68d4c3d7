"""What people do to the tasks they selected, in the console and in the shell: retry, cancel, run now.

Each is a call into the service layer, and returns the tasks that it applied to; others are left as they are.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any
from uuid import UUID

from django.db import IntegrityError, OperationalError, transaction

from .. import taskqueue
from ..conf import configured_backends
from ..display.reading import UNREADABLE
from ..models import Task


@contextmanager
def refused_copies() -> Iterator[None]:
    """Turns what a task that cannot be read, or that no constraint would let in today, raises into CannotCopy."""
    try:
        yield
    except (*UNREADABLE, IntegrityError) as error:
        raise CannotCopy from error
    except OperationalError as error:
        if "malformed JSON" not in str(error):  # SQLite's word for infinity
            raise
        raise CannotCopy from error


class CannotCopy(Exception):
    """The call cannot be read, or not be written again."""


def retry(ids: Sequence[UUID], **options: Any) -> list[UUID]:
    """Leaves out what cannot be done again: tasks of a backend that is gone, and tasks that cannot be read."""
    stored = Task.objects.using(taskqueue.database(options["backend"])).filter(pk__in=ids)
    known = list(stored.filter(backend__in=configured_backends()).order_by("pk").values_list("pk", flat=True))
    try:
        return retried(known, stored.db, **options)
    except CannotCopy:
        return [done for n, each in enumerate(known) for done in retry_if_readable(each, n, stored.db, **options)]


def retry_if_readable(task_id: UUID, place: int, using: str, **options: Any) -> list[UUID]:
    if "eta" in options:
        options["eta"] += place * options["step"]
    try:
        return retried([task_id], using, **options)
    except CannotCopy:
        return []


def retried(ids: Sequence[UUID], using: str, **options: Any) -> list[UUID]:
    with refused_copies(), transaction.atomic(using=using):
        return [task.retry_of_id for task in taskqueue.retry(ids, **options) if task.retry_of_id]


def cancel(ids: Sequence[UUID], **options: Any) -> list[UUID]:
    return taskqueue.cancel(ids, **options).done


def run_now(ids: Sequence[UUID], **options: Any) -> list[UUID]:
    return taskqueue.reschedule(ids, **options).done
