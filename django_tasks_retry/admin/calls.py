"""New calls from the console: enqueue a registered task, retry with other arguments, send a signal."""

import json
from datetime import timedelta
from typing import Any

from django import forms
from django.contrib import messages
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from .. import registry, taskqueue
from ..display.formatting import one_line, task_name
from ..display.redact import holds_secrets
from ..display.scope import console_backend
from ..errors import TaskQueueError
from ..models import Task
from ..rules.names import short_id
from ..selection.actions import RETRY
from ..taskqueue.events import actor_of
from .base import ArgumentsForm, log_action, reason_of
from .task import SingleActionAdmin, signal_of


class CallForm(ArgumentsForm):
    """A call; for a retry, only its arguments."""

    field_order = ("task",)
    task = forms.ChoiceField(label=gettext_lazy("Task"))
    queue = forms.CharField(label=gettext_lazy("Queue"), required=False, max_length=64)
    delay = forms.FloatField(label=gettext_lazy("Due in (seconds)"), required=False, min_value=0)

    def __init__(self, task: Task | None, data: Any = None) -> None:
        super().__init__(data, initial={"args": task.args if task else [], "kwargs": task.kwargs if task else {}})
        if task is None:
            field: Any = self.fields["task"]
            field.choices = [("", "—"), *((path, path) for path in registry.project_paths())]
        for name in ("task", "queue", "delay") if task else ():
            del self.fields[name]

    @property
    def call(self) -> tuple[Any, Any]:
        return self.cleaned_data["args"] or [], self.cleaned_data["kwargs"] or {}

    def enqueue(self, by: Any) -> Task:
        given, (args, kwargs) = self.cleaned_data, self.call
        options: dict[str, Any] = {
            "eta": timedelta(seconds=given["delay"]) if given["delay"] else None,
            "queue": given["queue"] or None,
            "metadata": {"enqueued_by": actor_of(by)},
        }
        func: Any = registry.find(given["task"])
        return taskqueue.enqueue(taskqueue.EnqueueOptions(func, args, kwargs, **options))


class CallAdmin(SingleActionAdmin):
    def get_call_urls(self) -> list[Any]:
        return [
            self.page_url("enqueue/", self.call_page, "enqueue", "enqueue_task"),
            self.page_url("<path:object_id>/edit/", self.call_page, "edit", "enqueue_task"),
            self.post_url("<path:object_id>/signal/", self.signal_view, "signal", "send_signal"),
        ]

    def call_page(self, request: HttpRequest, object_id: str = "") -> HttpResponse:
        """Enqueue a registered task, or do a finished one again with other arguments."""
        task = self.get_task_or_404(object_id) if object_id else None
        if task and not self.may_edit(request, task):
            raise PermissionDenied
        form, title = CallForm(task, request.POST if request.method == "POST" else None), _("Enqueue a task")
        if form.is_valid():
            try:
                return self.save_call(request, form, task)
            except TaskQueueError as error:
                form.add_error(None, one_line(error, 300))
        if task:
            values = {"task": task_name(task.func_path), "id": short_id(task.pk)}
            title = _("Retry %(task)s %(id)s with other arguments") % values
        return self.render_page(request, "call_form", title, {"form": form})

    def may_edit(self, request: HttpRequest, task: Task) -> bool:
        """Return whether its arguments can be edited: not if some are hidden, since nobody may see these."""
        is_known = task.is_finished and registry.find(task.func_path) is not None
        may = RETRY.is_allowed(request) and self.has_perm(request, "enqueue_task")
        return may and is_known and self.has_payload_permission(request) and not holds_secrets(task, request)

    def save_call(self, request: HttpRequest, form: CallForm, task: Task | None) -> HttpResponse:
        reason, by = reason_of(request), request.user
        made = taskqueue.retry_one(task, by=by, reason=reason, call=form.call) if task else form.enqueue(by)
        log_action(request, Task, [(str(made.pk), str(made.pk))], "enqueue" if task is None else "retry", reason)
        messages.success(request, _("Task %(id)s is enqueued.") % {"id": short_id(made.pk)})
        return HttpResponseRedirect(self.url("change", made.pk))

    def signal_view(self, request: HttpRequest, object_id: str) -> HttpResponse:
        """Send the signal for which the task waits, with a payload in JSON."""
        task = self.get_task_or_404(object_id)
        name = signal_of(task)
        try:
            payload = json.loads(request.POST.get("payload", "").strip() or "null")
            is_first = taskqueue.signal(name, payload, by=request.user, backend=console_backend()) if name else False
        except (TaskQueueError, ValueError) as error:
            messages.error(request, one_line(error, 300))
        else:
            if is_first:
                log_action(request, Task, [(str(task.pk), str(task.pk))], f"signal {name}", reason_of(request))
                messages.success(request, _("Signal %(name)s is sent.") % {"name": one_line(name, 100)})
            else:
                messages.warning(request, _("Nothing was changed: it waits for no signal, or that was sent before."))
        return HttpResponseRedirect(self.url("change", task.pk))
