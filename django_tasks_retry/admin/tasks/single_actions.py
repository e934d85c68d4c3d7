"""Actions on one task, from its page. A second retry asks first."""

from __future__ import annotations

from typing import Any

from django.contrib import messages
from django.contrib.admin.utils import unquote
from django.core.exceptions import PermissionDenied
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseRedirect
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from ...conf import configured_backends
from ...display.formatting import one_line
from ...display.reading import read_row, unreadable_columns
from ...display.scope import Scope, console_backend, console_database, current_scope
from ...errors import IllegalMove
from ...models import Task
from ..base import ConsoleAdmin
from ..bulk.actions import ACTIONS, CANCEL, RETRY, Action, run_action
from ..bulk.confirm import paused_warning, reason_of
from ..bulk.selection import paused_queues_of
from . import filters
from .related import Relation, retries_of


class SingleActionAdmin(ConsoleAdmin):
    """The part of a page that acts on one task."""

    def get_action_urls(self) -> list[Any]:
        return [self.post_url(f"<path:object_id>/{name}/", self.action_view(ACTIONS[name]), name) for name in ACTIONS]

    def get_task_or_404(self, object_id: str, scope: Scope | None = None) -> Task:
        key = filters.parse_uuid(unquote(object_id))
        task: Task | None = read_row(Task.objects.using((scope or current_scope()).using), key) if key else None
        if task is None:
            raise Http404
        return task

    def action_view(self, action: Action) -> Any:
        """The view that runs an action on one task."""

        def view(request: HttpRequest, object_id: str) -> HttpResponse:
            task = self.get_task_or_404(object_id)
            if not (action.is_allowed(request) and self.has_view_permission(request, task)):
                raise PermissionDenied
            retries = retries_of(task, console_database()) if action is RETRY else None
            if retries and "again" not in request.POST:
                return self.ask_again_view(request, task, retries)
            return HttpResponseRedirect(self.url("change", self.run_on_one(request, action, task)))

        return view

    def ask_again_view(self, request: HttpRequest, task: Task, retries: Relation) -> HttpResponse:
        """Shows what came of the retries before. Changes nothing."""
        count = len(retries.tasks)
        question = ngettext(
            "This task has already been retried:", "This task has already been retried %(count)s times:", count
        )
        context = {
            "question": question % {"count": f"{count}+" if retries.more else count},
            "retries": retries,
            "reason": reason_of(request),
            "resume": "resume" in request.POST,
            "action_url": self.url("retry", task.pk),
            "back_url": self.url("change", task.pk),
        }
        return self.render_page(request, "retry_again", _("Retry the task again?"), context)

    def run_on_one(self, request: HttpRequest, action: Action, task: Task) -> Any:
        """Run the action and say what came of it. Returns the id of the task to show next."""
        try:
            wishes = {"resume": "resume" in request.POST} if action is RETRY else {}
            done = run_action(action, [task.pk], request, reason_of(request), console_backend(), **wishes)
        except IllegalMove as error:
            messages.error(request, str(error))
            return task.pk
        if not done:
            messages.warning(request, refusal(action, task))
            return task.pk
        messages.success(request, action.done_message(1))
        if action is not CANCEL:
            for queue in paused_queues_of([task.pk], console_database()):
                messages.warning(request, paused_warning(queue))
        copies = Task.objects.using(console_database()).filter(retry_of=task.pk).order_by("-pk")
        return (copies.values_list("pk", flat=True).first() if action is RETRY else None) or task.pk


def refusal(action: Action, task: Task) -> str:
    """Why nothing was changed."""
    if action is RETRY and task.backend not in configured_backends():
        return _("It cannot be retried: the backend %(backend)s is not in TASKS, so no worker would run it.") % {
            "backend": one_line(task.backend, 64)
        }
    if action is RETRY and (columns := unreadable_columns(task)):
        return _("It cannot be retried: %(columns)s cannot be read.") % {"columns": ", ".join(columns)}
    return _("Nothing was changed: the task is %(why)s.") % {"why": action.skip_reason}
