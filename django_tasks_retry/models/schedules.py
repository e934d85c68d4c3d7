"""Schedules: rows that enqueue tasks at their instants."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django.db import models
from django.db.models import Q
from django.utils.translation import gettext_lazy as _
from django.utils.translation import pgettext_lazy

from .. import registry
from ..rules.names import path_of
from ..rules.schedules.timing import LONGEST_EXPRESSION, Timing
from ..utc import InstantField
from .querysets import ScheduleManager
from .tasks import LONGEST, MAX_LENGTHS, check, in_range

if TYPE_CHECKING:
    from .tasks import Task

OVERLAPS = [("skip", _("skip")), ("queue", pgettext_lazy("overlap of runs", "queue")), ("allow", _("allow"))]
SOURCES = [("code", _("code")), ("settings", _("settings")), ("database", _("database"))]
OUTCOMES = [("enqueued", _("enqueued")), ("skipped", _("skipped")), ("missed", _("missed"))]
TIMING_COLUMNS = ("cron", "every", "timezone", "starts_at", "ends_at")
"""Columns that decide when it runs. A change of any of them counts from now."""


class Schedule(models.Model):
    """A call that is enqueued at each of its slots."""

    name = models.CharField(_("name"), max_length=MAX_LENGTHS["schedule_id"], primary_key=True)
    func_path = models.CharField(_("task"), max_length=MAX_LENGTHS["func_path"])
    args = models.JSONField(_("arguments"), default=list, blank=True)
    kwargs = models.JSONField(_("keyword arguments"), default=dict, blank=True)
    backend = models.CharField(_("backend"), max_length=64, default="default")
    queue = models.CharField(
        _("queue"), max_length=MAX_LENGTHS["queue"], null=True, blank=True, help_text=_("Empty: the task's own.")
    )
    priority = models.SmallIntegerField(_("priority"), null=True, blank=True, help_text=_("Empty: the task's own."))
    cron = models.CharField(
        _("cron expression"), max_length=LONGEST_EXPRESSION, blank=True, default="",
        help_text=_("Minute, hour, day, month, weekday: 30 8 * * mon-fri. Or a name: @hourly, @daily, @weekly."),
    )  # fmt: skip
    every = models.FloatField(
        _("every"), null=True, blank=True, help_text=_("Seconds between runs, instead of an expression.")
    )
    timezone = models.CharField(
        _("time zone"), max_length=64, help_text=_("In which the expression is read, such as Europe/Berlin.")
    )
    overlap = models.CharField(
        _("overlap"), max_length=5, choices=OVERLAPS, default="skip",
        help_text=_("While the previous run has not finished: skip the slot, queue it behind that run, or allow both."),
    )  # fmt: skip
    misfire_grace = models.FloatField(
        _("late"), null=True, blank=True, db_column="late",
        help_text=_("Seconds after which a slot that could not be enqueued is given up. Empty: never."),
    )  # fmt: skip
    starts_at = InstantField(_("starts at"), null=True, blank=True)
    ends_at = InstantField(_("ends at"), null=True, blank=True)
    source = models.CharField(_("source"), max_length=8, choices=SOURCES, default="database", editable=False)
    # What was decided about it.
    paused_at = InstantField(_("paused at"), null=True, editable=False)
    paused_by = models.CharField(_("paused by"), max_length=160, default="", editable=False)
    reason = models.CharField(_("reason"), max_length=200, default="", editable=False)
    vanished_at = InstantField(_("vanished at"), null=True, editable=False)
    # Where it stands.
    anchor = InstantField(_("counts from"), null=True, editable=False)
    next_at = InstantField(_("next slot"), null=True, editable=False)
    last_at = InstantField(_("last slot"), null=True, editable=False)
    last_outcome = models.CharField(_("last outcome"), max_length=8, choices=OUTCOMES, default="", editable=False)
    updated_at = InstantField(_("updated at"), editable=False)

    runs: models.Manager[Task]
    objects = ScheduleManager()

    class Meta:
        verbose_name = _("schedule")
        verbose_name_plural = _("schedules")
        permissions = [("pause_schedule", "Can pause schedule"), ("run_schedule", "Can run schedule now")]
        constraints = [
            check("schedule_overlap_known", Q(overlap__in=[value for value, _ in OVERLAPS])),
            check("schedule_source_known", Q(source__in=[value for value, _ in SOURCES])),
            check(
                "schedule_has_one_timing",
                (Q(cron="") & Q(every__gte=1, every__lte=LONGEST)) | (~Q(cron="") & Q(every__isnull=True)),
            ),
            check(
                "schedule_late_in_range",
                Q(misfire_grace__isnull=True) | Q(misfire_grace__gte=0, misfire_grace__lte=LONGEST),
            ),
            check("schedule_times_in_range", in_range("starts_at", "ends_at", "anchor", "next_at", "last_at")),
        ]
        indexes = [
            models.Index(
                name="dtr_due_schedules", fields=["next_at"],
                condition=Q(paused_at__isnull=True, vanished_at__isnull=True, next_at__isnull=False),
            )
        ]  # fmt: skip

    def __str__(self) -> str:
        return self.name

    @property
    def task(self) -> registry.AnyTask | None:
        """The task it calls; None if this process does not know it."""
        return registry.find(self.func_path)

    @task.setter
    def task(self, task: Any) -> None:
        self.func_path = path_of(registry.resolve(task).func)

    @property
    def timing(self) -> Timing:
        return Timing(anchor=self.anchor, **{column: getattr(self, column) for column in TIMING_COLUMNS})

    @property
    def is_editable(self) -> bool:
        """Return whether it may be edited here: schedules of code are edited there."""
        return self.source == "database"

    def pause(self, *, by: Any = None, reason: str = "") -> None:
        """Enqueue nothing until it is resumed."""
        from ..taskqueue import pause

        pause(self.name, kind="schedule", by=by, reason=reason, backend=self.backend)

    def resume(self, *, by: Any = None, reason: str = "") -> None:
        """Go on with the next slot; nothing is enqueued for the past."""
        from ..taskqueue import resume

        resume(self.name, kind="schedule", by=by, reason=reason, backend=self.backend)

    def run_now(self, *, by: Any = None, reason: str = "") -> Task:
        """Enqueue its call once, beside the plan."""
        from ..taskqueue import run_schedule_now

        return run_schedule_now(self.name, by=by, reason=reason, backend=self.backend)

    def change(self, *, by: Any = None, reason: str = "", **changes: Any) -> None:
        """Change what was asked for. A new timing counts from now; other changes leave the next slot alone."""
        from ..taskqueue import change_schedule

        change_schedule(self.name, by=by, reason=reason, backend=self.backend, **changes)
