"""The pages of schedules: the list, one schedule, its form; pause, resume, run now and delete."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from django.contrib import admin, messages
from django.core.exceptions import PermissionDenied
from django.core.paginator import Paginator
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseRedirect
from django.utils.translation import gettext as _

from ... import taskqueue
from ...display.explain_schedule import explain_schedule
from ...display.formatting import format_duration, one_line
from ...display.redact import redacted_arguments
from ...display.scope import console_backend, console_database, current_scope
from ...errors import TaskQueueError
from ...models import OperatorEvent, Schedule, Task
from ..audit import log_action
from ..base import ConsoleAdmin
from ..bulk.confirm import reason_of
from ..pages.operator_events import event_rows, latest_operator_events
from .form import ScheduleForm, holds_secrets, secret_note
from .rows import instants, interval_series, other_runs, run_of, schedule_row, slot_runs

PER_PAGE = 25
MAX_EVENTS = 30


@admin.register(Schedule)
class ScheduleAdmin(ConsoleAdmin):
    def get_urls(self) -> list[Any]:
        return [
            self.page_url("add/", self.add_page, "add"),
            *self.get_post_urls(),
            self.page_url("<path:name>/edit/", self.edit_page, "edit"),
            self.page_url("<path:name>/change/", self.detail_page, "change"),
            *super().get_urls()[-1:],
        ]

    def get_post_urls(self) -> list[Any]:
        return [
            self.post_url("<path:name>/pause/", self.pause_view, "pause"),
            self.post_url("<path:name>/resume/", self.resume_view, "resume"),
            self.post_url("<path:name>/run/", self.run_view, "run"),
            self.post_url("<path:name>/delete/", self.delete_page, "delete"),
        ]

    def changelist_view(self, request: HttpRequest, extra_context: Any = None) -> HttpResponse:
        self.require(request, "view_schedule")
        scope = current_scope()
        rows = Schedule.objects.using(scope.using).filter(backend=scope.backend).order_by("name")
        page = Paginator(rows, PER_PAGE).get_page(request.GET.get("page"))
        visible = self.has_payload_permission(request)
        context = {
            "schedules": [(schedule_row(one, scope), self.url("change", one.name)) for one in page],
            "page": page,
            "series": interval_series(scope) if self.has_perm(request, "view_task") else [],
            "add_url": self.url("add") if self.has_perm(request, "add_schedule") else "",
            "operator_events": latest_operator_events(scope, "schedule.", can_see_payload=visible),
        }
        return self.render_page(request, "schedules", _("Schedules"), context)

    def detail_page(self, request: HttpRequest, name: str) -> HttpResponse:
        self.require(request, "view_schedule")
        schedule, scope, visible = self.found(name), current_scope(), self.has_payload_permission(request)
        events = OperatorEvent.objects.using(scope.using).filter(subject=name, kind__startswith="schedule.")
        runs = sorted([*slot_runs(name, scope), *other_runs(name, scope)], key=lambda task: task.pk, reverse=True)
        call = Task(func_path=schedule.func_path, args=schedule.args, kwargs=schedule.kwargs)
        context = {
            "schedule": schedule_row(schedule, scope),
            "func_path": one_line(schedule.func_path, 255),
            "explanation": explain_schedule(schedule, scope, can_see_payload=visible),
            "actions": self.actions_for(request, schedule),
            "edit_url": self.url("edit", name) if self.may_edit(request, schedule) else "",
            "runs": [run_of(task, scope.now) for task in runs[:30]] if self.has_perm(request, "view_task") else [],
            "facts": facts_of(schedule),
            "can_see_payload": visible,
            "arguments": redacted_arguments(call, request) if visible else [],
            "events": event_rows(list(events.order_by("-id")[:MAX_EVENTS]), can_see_payload=visible),
        }
        return self.render_page(request, "schedule", one_line(name, 128), context)

    def actions_for(self, request: HttpRequest, schedule: Schedule) -> list[dict[str, Any]]:
        """What this user may do with it: name, label and address."""
        paused = schedule.paused_at is not None
        may_delete = schedule.is_editable or schedule.vanished_at is not None
        offered = [
            ("run", _("Run now"), "run_schedule", True),
            ("pause", _("Pause"), "pause_schedule", not paused),
            ("resume", _("Resume"), "pause_schedule", paused),
            ("delete", _("Delete"), "delete_schedule", may_delete),
        ]
        return [
            {"name": name, "label": label, "url": self.url(name, schedule.name)}
            for name, label, permission, possible in offered
            if possible and self.has_perm(request, permission)
        ]

    # The form

    def may_edit(self, request: HttpRequest, schedule: Schedule) -> bool:
        return schedule.is_editable and self.has_perm(request, "change_schedule")

    def add_page(self, request: HttpRequest) -> HttpResponse:
        self.require(request, "view_schedule", "add_schedule")
        return self.form_page(request, None)

    def edit_page(self, request: HttpRequest, name: str) -> HttpResponse:
        schedule = self.found(name)
        if not self.may_edit(request, schedule):
            raise PermissionDenied
        self.require(request, "view_schedule")
        return self.form_page(request, schedule)

    def form_page(self, request: HttpRequest, schedule: Schedule | None) -> HttpResponse:
        """The next instants are shown before anything is saved."""
        hides = schedule is not None and (not self.has_payload_permission(request) or holds_secrets(schedule, request))
        data = request.POST if request.method == "POST" else None
        form = ScheduleForm(schedule, current_scope().now, data, hides_arguments=hides)
        is_valid = form.is_valid()
        if is_valid and form.was_previewed and "save" in request.POST:
            return self.save(request, form)
        title = _("Edit %(name)s") % {"name": one_line(schedule.name, 128)} if schedule else _("New schedule")
        zone = form.cleaned_data.get("timezone") if is_valid else ""
        context = {
            "form": form,
            "instants": instants(form.instants, zone or "UTC") if is_valid else [],
            "preview": form.preview if is_valid else "",
            "note": secret_note() if hides else "",
            "back_url": self.url("change", schedule.name) if schedule else self.url("changelist"),
        }
        return self.render_page(request, "schedule_form", title, context)

    def save(self, request: HttpRequest, form: ScheduleForm) -> HttpResponse:
        reason, given = reason_of(request), {"task": form.cleaned_data["task"], **form.asked}
        name = form.schedule.name if form.schedule else form.cleaned_data["name"]
        try:
            if form.schedule:
                taskqueue.change_schedule(name, by=request.user, reason=reason, backend=console_backend(), **given)
            else:
                given["backend"] = console_backend()
                taskqueue.create_schedule(name=name, by=request.user, reason=reason, **given)
        except TaskQueueError as error:
            messages.error(request, one_line(error, 300))
            return HttpResponseRedirect(self.url("edit", name) if form.schedule else self.url("add"))
        log_action(request, Schedule, [(name, one_line(name, 128))], "change" if form.schedule else "add", reason)
        messages.success(request, _("Schedule %(name)s is saved.") % {"name": one_line(name, 128)})
        return HttpResponseRedirect(self.url("change", name))

    # Decisions

    def pause_view(self, request: HttpRequest, name: str) -> HttpResponse:
        done = _("Schedule %(name)s is paused.")
        return self.decide(request, name, "pause", "pause_schedule", taskqueue.pause_schedule, done)

    def resume_view(self, request: HttpRequest, name: str) -> HttpResponse:
        done = _("Schedule %(name)s is resumed. Nothing is enqueued for the past.")
        return self.decide(request, name, "resume", "pause_schedule", taskqueue.resume_schedule, done)

    def run_view(self, request: HttpRequest, name: str) -> HttpResponse:
        done = _("Schedule %(name)s was enqueued once, beside the plan.")
        return self.decide(request, name, "run", "run_schedule", taskqueue.run_schedule_now, done)

    def delete_page(self, request: HttpRequest, name: str) -> HttpResponse:
        done = _("Schedule %(name)s is deleted. Its tasks stay.")
        self.decide(request, name, "delete", "delete_schedule", taskqueue.delete_schedule, done)
        return HttpResponseRedirect(self.url("changelist"))

    def decide(
        self, request: HttpRequest, name: str, action: str, permission: str, verb: Callable[..., Any], done: str
    ) -> HttpResponse:
        self.require(request, "view_schedule", permission)
        self.found(name)
        reason, values = reason_of(request), {"name": one_line(name, 128)}
        try:
            changed = verb(name, by=request.user, reason=reason, backend=console_backend())
        except TaskQueueError as error:
            messages.error(request, one_line(error, 300))
            return HttpResponseRedirect(self.url("change", name))
        if changed is False:
            messages.warning(request, _("Nothing was changed: somebody else was quicker."))
        else:
            log_action(request, Schedule, [(name, values["name"])], action, reason)
            messages.success(request, done % values)
        return HttpResponseRedirect(self.url("change", name))

    def require(self, request: HttpRequest, *permissions: str) -> None:
        if not all(self.has_perm(request, permission) for permission in permissions):
            raise PermissionDenied

    def found(self, name: str) -> Schedule:
        rows = Schedule.objects.using(console_database()).filter(backend=console_backend(), pk=name)
        schedule: Schedule | None = rows.first()
        if schedule is None:
            raise Http404
        return schedule


def facts_of(schedule: Schedule) -> list[tuple[str, Any]]:
    facts: list[tuple[str, Any]] = [
        (_("Source"), schedule.get_source_display()),
        (_("Overlap"), schedule.get_overlap_display()),
        (_("Late"), format_duration(schedule.late) if schedule.late is not None else None),
        (_("Queue"), schedule.queue and one_line(schedule.queue, 64)),
        (_("Priority"), None if schedule.priority is None else str(schedule.priority)),
        (_("Starts at"), schedule.starts_at),
        (_("Ends at"), schedule.ends_at),
        (_("Last slot"), schedule.last_at),
        (_("Last outcome"), schedule.get_last_outcome_display()),
    ]
    return [(name, value) for name, value in facts if value not in (None, "")]
