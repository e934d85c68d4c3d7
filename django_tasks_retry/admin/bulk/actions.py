"""The actions of operators on tasks: retry, cancel, run now; each with its permission, service call and messages."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from django.http import HttpRequest
from django.utils.functional import Promise
from django.utils.translation import gettext_lazy as _
from django.utils.translation import ngettext_lazy

from ...display.formatting import format_number
from ...models import Task
from ...rules.status import FINISHED, UNFINISHED, Status
from ...selection.actions import cancel, retry, run_now
from ..audit import log_action


@dataclass(frozen=True, slots=True)
class Action:
    name: str
    permission: str
    statuses: tuple[Status, ...]
    """The action skips tasks in any other status."""
    call: Callable[..., list[UUID]]
    """The call into the service layer; returns the tasks that it applied to."""
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
    permission="retry_task",
    statuses=FINISHED,
    call=retry,
    label=_("Retry"),
    title=_("Retry tasks"),
    skip_reason=_(
        "not finished, unreadable, of a backend that is not in TASKS, or a task with the same unique key is waiting"
    ),
    before=ngettext_lazy(
        "%(number)s task will be retried as a new task.",
        "%(number)s tasks will be retried as new tasks.",
        "count",
    ),
    after=ngettext_lazy("%(number)s task retried.", "%(number)s tasks retried.", "count"),
)
CANCEL = Action(
    name="cancel",
    permission="cancel_task",
    statuses=UNFINISHED,
    call=cancel,
    label=_("Cancel"),
    title=_("Cancel tasks"),
    skip_reason=_("already finished"),
    before=ngettext_lazy("%(number)s task will be cancelled.", "%(number)s tasks will be cancelled.", "count"),
    after=ngettext_lazy("%(number)s task cancelled.", "%(number)s tasks cancelled.", "count"),
)
RUN_NOW = Action(
    name="run-now",
    permission="retry_task",
    statuses=(Status.PENDING,),
    call=run_now,
    label=_("Run now"),
    title=_("Run tasks now"),
    skip_reason=_("not pending"),
    before=ngettext_lazy(
        "%(number)s task will be due immediately.", "%(number)s tasks will be due immediately.", "count"
    ),
    after=ngettext_lazy("%(number)s task is due now.", "%(number)s tasks are due now.", "count"),
)
ACTIONS = {action.name: action for action in (RETRY, CANCEL, RUN_NOW)}


def run_action(
    action: Action, ids: Sequence[UUID], request: HttpRequest, reason: str, backend: str, **options: Any
) -> list[UUID]:
    """Call the service layer, which writes the events, then log it. Returns the tasks that it applied to."""
    done = action.call(ids, by=request.user, reason=reason, backend=backend, **options)
    log_action(request, Task, [(str(task_id), str(task_id)) for task_id in done], action.name, reason)
    return done
