"""Records about tasks: results, events and steps; and signals, which tasks wait for."""

from typing import Any

from django.core.serializers.json import DjangoJSONEncoder
from django.db import models
from django.db.models import Q
from django.utils.translation import gettext_lazy as _

from ..utc import InstantField
from .tasks import IS_FINISHED, IS_SUCCESS, STATUS_CHOICES, Task, check, in_range

MAX_NAME = 200
"""Characters in the name of a step or a signal."""


class TaskResult(models.Model):
    """The outcome of a task. Exactly one for each finished task, written in the transaction that finished it."""

    task = models.OneToOneField(Task, models.DO_NOTHING, primary_key=True, db_constraint=False, related_name="outcome")
    status = models.CharField(_("status"), max_length=9, choices=STATUS_CHOICES)
    result = models.JSONField(_("result"), null=True)
    error = models.JSONField(_("error"), null=True)
    attempts = models.PositiveIntegerField(_("attempts"))
    last_attempt_at = InstantField(_("last attempt at"), null=True)
    finished_at = InstantField(_("finished at"))

    class Meta:
        verbose_name = _("task result")
        verbose_name_plural = _("task results")
        default_permissions = ("view",)
        constraints = [
            check("result_is_final", IS_FINISHED),
            check("result_without_error", ~IS_SUCCESS | Q(error__isnull=True)),
            check("result_times_in_range", in_range("last_attempt_at", "finished_at")),
        ]

    def __str__(self) -> str:
        return f"{self.status} {self.task_id}"


class TaskEvent(models.Model):
    """One thing that happened to a task. Append-only."""

    id = models.BigAutoField(primary_key=True)
    # No constraint in the database: checking it costs more than writing the event.
    task = models.ForeignKey(Task, models.DO_NOTHING, db_constraint=False, db_index=False, related_name="events")
    kind = models.CharField(_("kind"), max_length=20)
    ts = InstantField(_("time"))
    attempt = models.PositiveIntegerField(_("attempt"))
    actor = models.CharField(_("actor"), max_length=160)
    data = models.JSONField(_("data"), default=dict, encoder=DjangoJSONEncoder)

    class Meta:
        verbose_name = _("task event")
        verbose_name_plural = _("task events")
        default_permissions = ("view",)
        ordering = ["id"]
        # The same is told once. It finds the events of a task, too, and PostgreSQL keeps no other index on them.
        constraints = [models.UniqueConstraint(name="dtr_event_once", fields=["task", "attempt", "kind", "ts"])]

    def __str__(self) -> str:
        return f"{self.kind} {self.task_id}"

    @property
    def payload(self) -> dict[str, Any]:
        """The event as a whole, as a consumer outside this database would want it."""
        return {
            "ts": self.ts,
            "task_id": self.task_id,
            "run_id": self.task.run_id,
            "actor": self.actor,
            "attempt": self.attempt,
            "max_attempts": self.task.max_attempts,
            **self.data,
        }


class Step(models.Model):
    """One thing that a task remembers. Append-only, and written under the live lease alone."""

    id = models.BigAutoField(primary_key=True)
    task = models.ForeignKey(Task, models.DO_NOTHING, db_constraint=False, db_index=False, related_name="steps")
    name = models.CharField(_("name"), max_length=MAX_NAME + 20)
    kind = models.CharField(_("kind"), max_length=10)
    attempt = models.PositiveIntegerField(_("attempt"))
    actor = models.CharField(_("actor"), max_length=160)
    ts = InstantField(_("time"))
    result = models.JSONField(_("result"), null=True)

    class Meta:
        verbose_name = _("step")
        verbose_name_plural = _("steps")
        default_permissions = ("view",)
        ordering = ["id"]
        constraints = [models.UniqueConstraint(name="dtr_step_once", fields=["task", "name"])]

    def __str__(self) -> str:
        return f"{self.name} {self.task_id}"


class Signal(models.Model):
    """Something that happened outside, for tasks that wait for it. The first of a name wins."""

    name = models.CharField(_("name"), max_length=MAX_NAME, primary_key=True)
    payload = models.JSONField(_("payload"), null=True)
    ts = InstantField(_("time"))
    actor = models.CharField(_("actor"), max_length=160)

    class Meta:
        verbose_name = _("signal")
        verbose_name_plural = _("signals")
        default_permissions = ("view",)
        indexes = [models.Index(name="dtr_signals", fields=["ts"])]

    def __str__(self) -> str:
        return self.name
