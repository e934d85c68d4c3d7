"""The form of a schedule. The service layer checks it as it checks everybody's; its errors are shown here."""

from __future__ import annotations

import hashlib
import json
from datetime import datetime
from typing import Any

from django import forms
from django.http import HttpRequest
from django.utils import timezone as django_timezone
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from ... import registry
from ...display.redact import redact_value
from ...errors import TaskQueueError
from ...models import Schedule
from ...models.schedules import OVERLAPS
from ...taskqueue.schedules.definition import define, planned
from ...taskqueue.schedules.plan import declaration

TIMED = ("cron", "every", "timezone", "starts_at", "ends_at")
MOMENT = forms.DateTimeInput(attrs={"type": "datetime-local", "step": "1"}, format="%Y-%m-%dT%H:%M:%S")


class ScheduleForm(forms.Form):
    """`asked` is what the service layer is given, `instants` when it would run."""

    name = forms.CharField(label=gettext_lazy("Name"), max_length=128)
    task = forms.ChoiceField(label=gettext_lazy("Task"))
    args = forms.JSONField(
        label=gettext_lazy("Arguments"), required=False, widget=forms.Textarea(attrs={"rows": 2}),
        help_text=gettext_lazy("A JSON list, such as [42]."),
    )  # fmt: skip
    kwargs = forms.JSONField(
        label=gettext_lazy("Keyword arguments"), required=False, widget=forms.Textarea(attrs={"rows": 2}),
        help_text=gettext_lazy('A JSON object, such as {"region": "us"}.'),
    )  # fmt: skip
    cron = forms.CharField(label=gettext_lazy("Cron expression"), required=False, max_length=100)
    every = forms.FloatField(label=gettext_lazy("Every (seconds)"), required=False)
    timezone = forms.CharField(label=gettext_lazy("Time zone"), required=False, max_length=64)
    starts_at = forms.DateTimeField(label=gettext_lazy("Starts at"), required=False, widget=MOMENT)
    ends_at = forms.DateTimeField(label=gettext_lazy("Ends at"), required=False, widget=MOMENT)
    overlap = forms.ChoiceField(label=gettext_lazy("Overlap"), choices=OVERLAPS)
    late = forms.FloatField(label=gettext_lazy("Late (seconds)"), required=False, min_value=0)
    queue = forms.CharField(label=gettext_lazy("Queue"), required=False, max_length=64)
    priority = forms.IntegerField(label=gettext_lazy("Priority"), required=False, min_value=-100, max_value=100)
    previewed = forms.CharField(required=False, widget=forms.HiddenInput)

    def __init__(self, schedule: Schedule | None, moment: datetime, data: Any = None, *, hides_arguments: bool) -> None:
        super().__init__(data, initial=initial_of(schedule))
        self.schedule, self.moment, self.instants = schedule, moment, list[datetime]()
        task: Any = self.fields["task"]
        paths = {*registry.known_paths(), *([schedule.func_path] if schedule else ())}
        task.choices = [("", "—"), *((path, path) for path in sorted(paths))]
        for name in ("cron", "every", "timezone", "overlap", "late", "queue", "priority"):
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
            timing = define(cleaned["task"], declaration(self.asked), moment=self.moment)
            self.instants = Schedule(**timing, **planned(timing, self.moment)).timing.upcoming(self.moment, 5)
        except TaskQueueError as error:
            raise forms.ValidationError(str(error)) from None
        return cleaned

    @property
    def asked(self) -> dict[str, Any]:
        """Without the task and the name; what the form does not show stays as it is."""
        given = {name: value for name, value in self.cleaned_data.items() if name not in {"task", "name", "previewed"}}
        given |= {name: given[name] or None for name in ("queue", "timezone")}
        if "args" in self.fields:
            return given | {"args": given["args"] or [], "kwargs": given["kwargs"] or {}}
        return given | ({"args": self.schedule.args, "kwargs": self.schedule.kwargs} if self.schedule else {})

    @property
    def preview(self) -> str:
        """Which timing was shown: another one is shown first."""
        return hashlib.sha256(repr([self.cleaned_data.get(name) for name in TIMED]).encode()).hexdigest()[:16]

    @property
    def was_previewed(self) -> bool:
        return bool(self.cleaned_data.get("previewed") == self.preview)


def initial_of(schedule: Schedule | None) -> dict[str, Any]:
    if schedule is None:
        return {"args": [], "kwargs": {}, "timezone": django_timezone.get_default_timezone_name(), "overlap": "skip"}
    names = ("args", "kwargs", *TIMED, "overlap", "late", "queue", "priority")
    return {"task": schedule.func_path, **{name: getattr(schedule, name) for name in names}}


def holds_secrets(schedule: Schedule, request: HttpRequest) -> bool:
    """Secrets are shown to nobody, so what holds one cannot be edited in a form."""
    shown = redact_value("", {"args": schedule.args, "kwargs": schedule.kwargs}, request)
    return json.dumps(shown, default=str) != json.dumps({"args": schedule.args, "kwargs": schedule.kwargs}, default=str)


def secret_note() -> str:
    return _("Its arguments are not shown here, and stay as they are.")
