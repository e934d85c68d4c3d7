"""What tasks remember, and what they are told from outside."""

from __future__ import annotations

from django.db import models
from django.utils.translation import gettext_lazy as _

from ..instants import InstantField
from .tasks import Task

MAX_NAME = 200
"""Characters in the name of a step or a signal."""


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
