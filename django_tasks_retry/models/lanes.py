"""What is known of a lane beside its tasks: what was decided about it, its recent starts, how its attempts ended."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import ClassVar

from django.db import models
from django.utils.translation import gettext_lazy as _

from ..instants import InstantField
from .tasks import MAX_LENGTHS

LANE, QUEUE, FUNCTION = "lane", "queue", "function"
KIND_CHOICES = [(LANE, _("Lane")), (QUEUE, _("Queue")), (FUNCTION, _("Function"))]


TRIPPED = models.Q(probe_at__isnull=False) | models.Q(probing_since__isnull=False)
"""What its circuit breaker has paused, and probes."""


def split(label: str) -> tuple[str, str]:
    """Kind and name: `tenant-7`, `queue:crm` or `function:shop.tasks.pay`."""
    kind, _, name = label.partition(":")
    return (kind, name) if kind in (QUEUE, FUNCTION) and name else (LANE, label)


class LaneQuerySet(models.QuerySet["LaneState"]):
    def among(self, labels: Iterable[str]) -> LaneQuerySet:
        """Those of these lanes, queues and functions."""
        names: dict[str, list[str]] = {}
        for kind, name in map(split, labels):
            names.setdefault(kind, []).append(name)
        found = models.Q(pk__in=[])
        for kind, of_kind in names.items():
            found |= models.Q(kind=kind, name__in=of_kind)
        return self.filter(found)

    def labels(self, labels: Iterable[str]) -> list[str]:
        """Which of these have a row."""
        return [state.label for state in self.among(labels).only("kind", "name")]


class LaneManager(models.Manager.from_queryset(LaneQuerySet)):  # type: ignore[misc]
    """`LaneState.objects`."""


class LaneState(models.Model):
    """One lane that is limited, paused or decided about; all others have no row.

    A queue and a function are lanes, too. Whoever claims from a lane with a row holds the row locked meanwhile. How
    many of it run is counted by their leases, and stands nowhere else.
    """

    id = models.BigAutoField(primary_key=True)
    kind = models.CharField(_("kind"), max_length=8, choices=KIND_CHOICES, default=LANE)
    name = models.CharField(_("name"), max_length=MAX_LENGTHS["func_path"])
    # What a person decided: it wins over the settings and over the code.
    running = models.PositiveIntegerField(_("running at once"), null=True)
    starts = models.PositiveIntegerField(_("starts"), null=True)
    per = models.FloatField(_("window"), null=True, help_text=_("Seconds in which so many may start."))
    weight = models.FloatField(_("weight"), null=True)
    decided_by = models.CharField(_("decided by"), max_length=160, default="")
    decided_for = models.CharField(_("reason"), max_length=200, default="")
    paused_at = InstantField(_("paused at"), null=True)
    paused_by = models.CharField(_("paused by"), max_length=160, default="")
    reason = models.CharField(_("reason for the pause"), max_length=200, default="")
    # Of the circuit breaker: when it probes, and that it does.
    probe_at = InstantField(_("probe at"), null=True)
    probing_since = InstantField(_("probing since"), null=True)
    probe_from = models.JSONField(_("outcomes before the probe"), null=True)
    counts_from = InstantField(_("failures count from"), null=True)
    recent = models.JSONField(_("recent starts"), default=list)
    created_at = InstantField(_("created at"))

    objects = LaneManager()

    held_at: datetime
    """By the queue's clock, when whoever claims from it locked the row."""

    DECISIONS: ClassVar[tuple[str, ...]] = ("running", "starts", "per", "weight")

    class Meta:
        verbose_name = _("lane")
        verbose_name_plural = _("lanes")
        default_permissions = ("view",)
        permissions = [("control_lane", "Can pause and limit lanes")]
        constraints = [models.UniqueConstraint(name="dtr_one_lane", fields=["kind", "name"])]
        indexes = [models.Index(name="dtr_tripped", fields=["kind", "name"], condition=TRIPPED)]

    def __str__(self) -> str:
        return self.label

    @property
    def label(self) -> str:
        """As people write it: a lane by its name, a queue or function with its kind before it."""
        return self.name if self.kind == LANE else f"{self.kind}:{self.name}"

    @property
    def is_decided(self) -> bool:
        return any(getattr(self, name) is not None for name in self.DECISIONS)


class LaneStat(models.Model):
    """Attempts that ended within one minute, of a lane that has a circuit breaker. Workers add to it."""

    id = models.BigAutoField(primary_key=True)
    minute = InstantField(_("minute"))
    lane = models.CharField(_("lane"), max_length=MAX_LENGTHS["lane"])
    completed = models.PositiveIntegerField(_("completed"), default=0)
    failed = models.PositiveIntegerField(_("failed"), default=0)

    class Meta:
        verbose_name = _("lane statistic")
        verbose_name_plural = _("lane statistics")
        default_permissions = ()
        constraints = [models.UniqueConstraint(name="dtr_one_lane_stat", fields=["minute", "lane"])]

    def __str__(self) -> str:
        return f"{self.minute} {self.lane}"
