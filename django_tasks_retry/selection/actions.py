"""Actions of people on the tasks they selected, in the console and in the shell: retry, cancel, run now.

Each is a call into the service layer, and returns the tasks that it applied to; others are left as they are.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from django.db import IntegrityError, OperationalError, transaction
from django.http import HttpRequest
from django.utils.functional import Promise
from django.utils.translation import gettext_lazy, ngettext_lazy

from .. import taskqueue
from ..conf import configured_backends
from ..display.formatting import format_number
from ..models import Task
from ..rules.status import FINISHED, UNFINISHED, Status
from ..taskqueue.database import UNREADABLE


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
        done: list[UUID] = []
        for place, each in enumerate(known):
            done += retry_if_readable(each, place, len(done), stored.db, **options)
        return done


def retry_if_readable(task_id: UUID, place: int, done: int, using: str, **options: Any) -> list[UUID]:
    if "eta" in options:
        options["eta"] += place * options["step"]
    if "canary" in options:
        options["canary"] = options["canary"].after(done)
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


@dataclass(frozen=True, slots=True)
class Action:
    """An action on tasks, and the words for it in the console and in the shell."""

    name: str
    participle: str
    permission: str
    statuses: tuple[Status, ...]  # the action skips tasks in any other status
    call: Callable[..., list[UUID]]  # the call into the service layer; returns the tasks that it applied to
    label: str | Promise
    title: str | Promise
    skip_reason: str | Promise
    before: Any
    after: Any

    def is_possible(self, status: str) -> bool:
        return status in self.statuses

    def is_allowed(self, request: HttpRequest) -> bool:
        return request.user.has_perm(f"{Task._meta.app_label}.{self.permission}")

    def confirm_message(self, count: int) -> str:
        return str(self.before % {"count": count, "number": format_number(count)})

    def done_message(self, count: int) -> str:
        return str(self.after % {"count": count, "number": format_number(count)})


RETRY = Action(
    name="retry",
    participle="retried",
    permission="retry_task",
    statuses=FINISHED,
    call=retry,
    label=gettext_lazy("Retry"),
    title=gettext_lazy("Retry tasks"),
    skip_reason=gettext_lazy(
        "not finished, unreadable, of a backend that is not in TASKS, or a task with the same unique key is waiting"
    ),
    before=ngettext_lazy(
        "%(number)s task will be retried as a new task.", "%(number)s tasks will be retried as new tasks.", "count"
    ),
    after=ngettext_lazy("%(number)s task retried.", "%(number)s tasks retried.", "count"),
)
CANCEL = Action(
    name="cancel",
    participle="cancelled",
    permission="cancel_task",
    statuses=UNFINISHED,
    call=cancel,
    label=gettext_lazy("Cancel"),
    title=gettext_lazy("Cancel tasks"),
    skip_reason=gettext_lazy("already finished"),
    before=ngettext_lazy("%(number)s task will be cancelled.", "%(number)s tasks will be cancelled.", "count"),
    after=ngettext_lazy("%(number)s task cancelled.", "%(number)s tasks cancelled.", "count"),
)
RUN_NOW = Action(
    name="run-now",
    participle="rescheduled",
    permission="retry_task",
    statuses=(Status.PENDING,),
    call=run_now,
    label=gettext_lazy("Run now"),
    title=gettext_lazy("Run tasks now"),
    skip_reason=gettext_lazy("not pending"),
    before=ngettext_lazy(
        "%(number)s task will be due immediately.", "%(number)s tasks will be due immediately.", "count"
    ),
    after=ngettext_lazy("%(number)s task is due now.", "%(number)s tasks are due now.", "count"),
)
ACTIONS = {action.name: action for action in (RETRY, CANCEL, RUN_NOW)}
