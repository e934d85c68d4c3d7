"""What operators can do with tasks: retry, cancel, run now. Each has a permission, a verb and its words."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from django.http import HttpRequest
from django.utils.functional import Promise
from django.utils.translation import gettext_lazy as _
from django.utils.translation import ngettext

from ... import taskqueue
from ...models import Task
from ...rules.status import FINISHED, UNFINISHED, Status
from .. import audit
from ..display.formatting import number

Verb = Callable[..., list[UUID]]


@dataclass(frozen=True, slots=True)
class Deed:
    name: str
    permission: str
    statuses: tuple[Status, ...]
    label: str | Promise
    question: str | Promise
    skipped_because: str | Promise
    verb: Verb
    promised: Callable[[int], str]
    told: Callable[[int], str]

    def is_possible(self, status: str) -> bool:
        return status in self.statuses

    def is_allowed(self, request: HttpRequest) -> bool:
        return request.user.has_perm(f"{Task._meta.app_label}.{self.permission}")


def retried(ids: Sequence[UUID], **said: Any) -> list[UUID]:
    return [task.retry_of_id for task in taskqueue.retry(ids, **said) if task.retry_of_id]


def cancelled(ids: Sequence[UUID], **said: Any) -> list[UUID]:
    return taskqueue.cancel(ids, **said).done


def run_now(ids: Sequence[UUID], **said: Any) -> list[UUID]:
    return taskqueue.reschedule(ids, **said).done


def will_be_retried(count: int) -> str:
    text = ngettext("%s task will be done again, as a new task.", "%s tasks will be done again, as new tasks.", count)
    return text % number(count)


def will_be_cancelled(count: int) -> str:
    return ngettext("%s task will be cancelled.", "%s tasks will be cancelled.", count) % number(count)


def will_be_due(count: int) -> str:
    return ngettext("%s task will be due at once.", "%s tasks will be due at once.", count) % number(count)


def told_retried(count: int) -> str:
    return ngettext("%s task retried.", "%s tasks retried.", count) % number(count)


def told_cancelled(count: int) -> str:
    return ngettext("%s task cancelled.", "%s tasks cancelled.", count) % number(count)


def told_due(count: int) -> str:
    return ngettext("%s task is due now.", "%s tasks are due now.", count) % number(count)


RETRY = Deed(
    "retry", "retry_task", FINISHED, _("Retry"), _("Retry tasks"),
    _("not finished yet, or the same work is waiting already"), retried, will_be_retried, told_retried,
)  # fmt: skip
CANCEL = Deed(
    "cancel", "cancel_task", UNFINISHED, _("Cancel"), _("Cancel tasks"), _("finished already"), cancelled,
    will_be_cancelled, told_cancelled,
)  # fmt: skip
RUN_NOW = Deed(
    "run-now", "retry_task", (Status.PENDING,), _("Run now"), _("Run tasks now"),
    _("not waiting: running or finished"), run_now, will_be_due, told_due,
)  # fmt: skip
DEEDS = {deed.name: deed for deed in (RETRY, CANCEL, RUN_NOW)}


def do(deed: Deed, ids: Sequence[UUID], request: HttpRequest, reason: str, backend: str) -> list[UUID]:
    """Through the service layer, which writes the events; then into Django's log. Returns the tasks it applied to."""
    done = deed.verb(ids, by=request.user, reason=reason, backend=backend)
    names = [(str(task_id), str(task_id)) for task_id in done]
    audit.log(request, Task, names, f"{deed.name}: {reason}" if reason else deed.name)
    return done
