"""The pages of schedules: the list, one schedule, its form; pause, resume, run now and delete."""

import hashlib
from collections import defaultdict
from collections.abc import Sequence
from datetime import datetime
from functools import partial
from typing import Any, cast

from django import forms
from django.contrib import admin, messages
from django.core.exceptions import PermissionDenied
from django.core.paginator import Paginator
from django.db.models import QuerySet
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseRedirect
from django.utils import timezone as django_timezone
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from .. import registry, taskqueue
from ..display.events import latest_operator_events, operator_event_rows
from ..display.explain_schedule import Missed, explain_schedule, missed_of, missed_slots, slots_not_run
from ..display.formatting import format_duration, one_line
from ..display.redact import holds_secrets, redacted_arguments
from ..display.scope import console_backend, console_database, current_scope
from ..errors import TaskQueueError
from ..models import OVERLAPS, OperatorEvent, Schedule, Task
from ..taskqueue.reading import read_row, read_rows, unreadable_columns
from ..taskqueue.schedules import define_schedule, planned_columns, read_declaration
from .base import ArgumentsForm, ConsoleAdmin, Verb, log_action, reason_of
from .parts.schedule_rows import RUNS, instants, interval_series, run_of, runs_of, schedule_row, slot_of

TIMED = ("cron", "every", "timezone", "starts_at", "ends_at")
MOMENT = forms.DateTimeInput(attrs={"type": "datetime-local", "step": "1"}, format="%Y-%m-%dT%H:%M:%S")
PER_PAGE = 25
MAX_EVENTS = 30


class ScheduleForm(ArgumentsForm):
    """`asked` holds the arguments for the service layer, `instants` the next runs."""

    field_order = ("name", "task")
    name = forms.CharField(label=gettext_lazy("Name"), max_length=128)
    task = forms.ChoiceField(label=gettext_lazy("Task"))
    cron = forms.CharField(label=gettext_lazy("Cron expression"), required=False, max_length=100)
    every = forms.FloatField(label=gettext_lazy("Every (seconds)"), required=False)
    timezone = forms.CharField(label=gettext_lazy("Time zone"), required=False, max_length=64)
    starts_at = forms.DateTimeField(label=gettext_lazy("Starts at"), required=False, widget=MOMENT)
    ends_at = forms.DateTimeField(label=gettext_lazy("Ends at"), required=False, widget=MOMENT)
    overlap = forms.ChoiceField(label=gettext_lazy("Overlap"), choices=OVERLAPS)
    misfire_grace = forms.FloatField(label=gettext_lazy("Late (seconds)"), required=False, min_value=0)
    queue = forms.CharField(label=gettext_lazy("Queue"), required=False, max_length=64)
    priority = forms.IntegerField(label=gettext_lazy("Priority"), required=False, min_value=-100, max_value=100)
    previewed = forms.CharField(required=False, widget=forms.HiddenInput)

    def __init__(self, schedule: Schedule | None, moment: datetime, data: Any = None, *, hides_arguments: bool) -> None:
        super().__init__(data, initial=initial_of(schedule))
        self.schedule, self.moment, self.instants = schedule, moment, list[datetime]()
        task: Any = self.fields["task"]
        paths = {*registry.known_paths(), *([schedule.func_path] if schedule else ())}
        task.choices = [("", "—"), *((path, path) for path in sorted(paths))]
        for name in ("cron", "every", "timezone", "overlap", "misfire_grace", "queue", "priority"):
            self.fields[name].help_text = str(Schedule._meta.get_field(name).help_text)  # type: ignore[union-attr]
        if schedule is not None:
            del self.fields["name"]
        if hides_arguments:
            del self.fields["args"], self.fields["kwargs"]

    def clean(self) -> dict[str, Any]:
        cleaned: dict[str, Any] = super().clean() or {}
        if self.errors:
            return cleaned
        try:
            timing = define_schedule(cleaned["task"], read_declaration(self.asked), moment=self.moment)
            self.instants = Schedule(**timing, **planned_columns(timing, self.moment)).timing.upcoming(self.moment, 5)
        except TaskQueueError as error:
            raise forms.ValidationError(str(error)) from None
        return cleaned

    @property
    def asked(self) -> dict[str, Any]:
        """Return the fields except task and name. Hidden arguments keep their values."""
        given = {name: value for name, value in self.cleaned_data.items() if name not in {"task", "name", "previewed"}}
        given |= {name: given[name] or None for name in ("queue", "timezone")}
        if "args" in self.fields:
            return given | {"args": given["args"] or [], "kwargs": given["kwargs"] or {}}
        return given | ({"args": self.schedule.args, "kwargs": self.schedule.kwargs} if self.schedule else {})

    @property
    def preview(self) -> str:
        """Return a digest of the timing that was shown. Another timing is shown again before it is saved."""
        return hashlib.sha256(repr([self.cleaned_data.get(name) for name in TIMED]).encode()).hexdigest()[:16]

    @property
    def was_previewed(self) -> bool:
        return bool(self.cleaned_data.get("previewed") == self.preview)


def initial_of(schedule: Schedule | None) -> dict[str, Any]:
    if schedule is None:
        return {"args": [], "kwargs": {}, "timezone": django_timezone.get_default_timezone_name(), "overlap": "skip"}
    names = ("args", "kwargs", *TIMED, "overlap", "misfire_grace", "queue", "priority")
    return {"task": schedule.func_path, **{name: getattr(schedule, name) for name in names}}


@admin.register(Schedule)
class ScheduleAdmin(ConsoleAdmin):
    def get_urls(self) -> list[Any]:
        return [
            self.page_url("add/", self.form_page, "add", "add_schedule"),
            self.page_url("<path:name>/edit/", self.form_page, "edit", "change_schedule"),
            self.page_url("<path:name>/change/", self.detail_page, "change"),
            *super().get_urls(),
        ]

    def get_post_urls(self) -> list[Any]:
        return [
            self.post_url("<path:name>/pause/", self.pause_view, "pause", "pause_schedule"),
            self.post_url("<path:name>/resume/", self.resume_view, "resume", "pause_schedule"),
            self.post_url("<path:name>/run/", self.run_view, "run", "run_schedule"),
            self.post_url("<path:name>/delete/", self.delete_page, "delete", "delete_schedule"),
        ]

    def changelist_view(self, request: HttpRequest, extra_context: Any = None) -> HttpResponse:
        scope = current_scope()
        rows = Schedule.objects.using(scope.using).filter(backend=scope.backend).order_by("name")
        page = Paginator(rows, PER_PAGE).get_page(request.GET.get("page"))
        shown: list[Schedule] = read_rows(cast("QuerySet[Schedule]", page.object_list))
        visible, missed = self.has_payload_permission(request), missed_slots(scope)
        not_run: dict[str, list[Missed]] = defaultdict(list)
        for slot in slots_not_run(scope, "schedule.missed", "schedule.skipped"):
            not_run[slot.name].append(slot)
        context = {
            "schedules": [
                (schedule_row(one, scope, not_run[one.name]), self.url("change", one.name), missed.get(one.name))
                for one in shown
            ],
            "page": page,
            "series": interval_series(scope) if self.has_perm(request, "view_task") else [],
            "add_url": self.url("add") if self.has_perm(request, "add_schedule") else "",
            "operator_events": latest_operator_events(scope, "schedule.", can_see_payload=visible),
        }
        return self.render_page(request, "schedules", _("Schedules"), context)

    def detail_page(self, request: HttpRequest, name: str) -> HttpResponse:
        schedule, scope, visible = self.found(name), current_scope(), self.has_payload_permission(request)
        stored = OperatorEvent.objects.using(scope.using).filter(subject=name, kind__startswith="schedule.")
        events = read_rows(stored.order_by("-id")[:MAX_EVENTS])
        runs = sorted([*runs_of(name, scope, "-slot"), *runs_of(name, scope, "-id")], key=lambda task: task.pk)[::-1]
        call = Task(func_path=schedule.func_path, args=schedule.args, kwargs=schedule.kwargs)
        context = {
            "schedule": schedule_row(schedule, scope, filter(None, map(missed_of, events))),
            "func_path": one_line(schedule.func_path, 255),
            "explanation": explain_schedule(schedule, scope, can_see_payload=visible),
            "actions": self.actions_for(request, schedule),
            "edit_url": self.url("edit", name) if self.may_edit(request, schedule) else "",
            "runs": rows_of(runs[:RUNS], events, scope.now) if self.has_perm(request, "view_task") else [],
            "facts": facts_of(schedule),
            "arguments": redacted_arguments(call, request) if visible else [],
            "events": operator_event_rows(events, can_see_payload=visible),
        }
        return self.render_page(request, "schedule", one_line(name, 128), context)

    def actions_for(self, request: HttpRequest, schedule: Schedule) -> list[dict[str, Any]]:
        """Return the actions that this user may take, each with name, label and address."""
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
        return schedule.is_editable and not unreadable_columns(schedule) and self.has_perm(request, "change_schedule")

    def form_page(self, request: HttpRequest, name: str = "") -> HttpResponse:
        """Add or edit a schedule. Its next instants are shown before it is saved."""
        schedule = self.found(name) if name else None
        if schedule and not self.may_edit(request, schedule):
            raise PermissionDenied
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
            "note": _("Its arguments are not shown here, and stay as they are.") if hides else "",
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
        return self.change(request, name, "pause", partial(taskqueue.pause, kind="schedule"), done)

    def resume_view(self, request: HttpRequest, name: str) -> HttpResponse:
        done = _("Schedule %(name)s is resumed. Missed slots are not enqueued.")
        return self.change(request, name, "resume", partial(taskqueue.resume, kind="schedule"), done)

    def run_view(self, request: HttpRequest, name: str) -> HttpResponse:
        done = _("Schedule %(name)s was run once, in addition to its slots.")
        return self.change(request, name, "run", taskqueue.run_schedule_now, done)

    def delete_page(self, request: HttpRequest, name: str) -> HttpResponse:
        done = _("Schedule %(name)s is deleted. Its tasks stay.")
        return self.change(request, name, "delete", taskqueue.delete_schedule, done, to=self.url("changelist"))

    def change(self, request: HttpRequest, name: str, action: str, verb: Verb, done: str, to: str = "") -> HttpResponse:
        self.found(name)
        refused = _("Nothing was changed: another user was faster.")
        to, done = to or self.url("change", name), done % {"name": one_line(name, 128)}
        return self.decide(request, name, action, partial(verb, name), done, refused=refused, to=to)

    def found(self, name: str) -> Schedule:
        rows = Schedule.objects.using(console_database()).filter(backend=console_backend())
        schedule: Schedule | None = read_row(rows, name)
        if schedule is None:
            raise Http404
        return schedule


def rows_of(runs: Sequence[Task], events: Sequence[OperatorEvent], now: datetime) -> list[dict[str, Any]]:
    """Return the runs, and between them the slots that did not run, as far back as the runs go."""
    oldest = min(task.slot or task.created_at for task in runs) if len(runs) == RUNS else None
    missed = [slot_of(each) for each in filter(None, map(missed_of, events)) if not oldest or each.last > oldest]
    rows = [*(run_of(task, now) for task in runs), *missed]
    return sorted(rows, key=lambda row: row["slot"] or row["enqueued"], reverse=True)


def facts_of(schedule: Schedule) -> list[tuple[str, Any]]:
    facts: list[tuple[str, Any]] = [
        (_("Source"), schedule.get_source_display()),
        (_("Overlap"), schedule.get_overlap_display()),
        (_("Late"), format_duration(schedule.misfire_grace) if schedule.misfire_grace is not None else None),
        (_("Queue"), schedule.queue and one_line(schedule.queue, 64)),
        (_("Priority"), None if schedule.priority is None else str(schedule.priority)),
        (_("Starts at"), schedule.starts_at),
        (_("Ends at"), schedule.ends_at),
        (_("Last slot"), schedule.last_at),
        (_("Last outcome"), schedule.get_last_outcome_display()),
    ]
    return [(name, value) for name, value in facts if value not in (None, "")]
