"""Limits of lanes, queues and functions: what was decided, their recent starts, and how attempts of lanes ended."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import Any, ClassVar

from django.db import models
from django.utils.translation import gettext_lazy as _

from ..rules.lanes.limits import HEAVIEST, LONGEST_WINDOW, MOST, SHORTEST_WINDOW
from ..utc import InstantField
from .tasks import MAX_LENGTHS, check, in_range

LANE, QUEUE, FUNCTION = "lane", "queue", "function"
KIND_CHOICES = [(LANE, _("Lane")), (QUEUE, _("Queue")), (FUNCTION, _("Function"))]


TRIPPED = models.Q(probe_at__isnull=False) | models.Q(probing_since__isnull=False)
"""Limits that a circuit breaker has paused, and probes."""

UNDECIDED = models.Q(running=None, starts=None, per=None, weight=None, paused_at=None, probing_since=None)


def split(label: str) -> tuple[str, str]:
    """Kind and name: `tenant-7`, `queue:crm` or `function:shop.tasks.pay`."""
    kind, _, name = label.partition(":")
    return (kind, name) if kind in (QUEUE, FUNCTION) and name else (LANE, label)


def label_of(kind: str, name: str) -> str:
    return name if kind == LANE else f"{kind}:{name}"


class FlowLimitQuerySet(models.QuerySet["FlowLimit"]):
    def among(self, labels: Iterable[str]) -> FlowLimitQuerySet:
        """Rows of these lanes, queues and functions."""
        names: dict[str, list[str]] = {}
        for kind, name in map(split, labels):
            names.setdefault(kind, []).append(name)
        found = models.Q(pk__in=[])
        for kind, of_kind in names.items():
            found |= models.Q(kind=kind, name__in=of_kind)
        return self.filter(found)

    def with_contents(self) -> FlowLimitQuerySet:
        """Rows with a decision, or with counted starts."""
        return self.exclude(UNDECIDED, recent=[])

    def labels(self, labels: Iterable[str]) -> list[str]:
        """Return those of the labels that have a row."""
        return [state.label for state in self.among(labels).only("kind", "name")]


class ReadableJSONField(models.JSONField):
    """A JSONField that reads a value that Python cannot hold as None. Migrations know it as a JSONField."""

    def deconstruct(self) -> Any:
        name, _, args, kwargs = super().deconstruct()
        return name, "django.db.models.JSONField", args, kwargs

    def from_db_value(self, value: Any, expression: Any, connection: Any) -> Any:
        try:
            return super().from_db_value(value, expression, connection)
        except (ValueError, RecursionError):
            return None


def between(column: str, least: float, most: float) -> models.Q:
    """A number of a column that may be empty. Infinity and NaN are larger than any other, for PostgreSQL."""
    return models.Q(**{f"{column}__isnull": True}) | models.Q(**{f"{column}__gte": least, f"{column}__lte": most})


class FlowLimitManager(models.Manager.from_queryset(FlowLimitQuerySet)):  # type: ignore[misc]
    """`FlowLimit.objects`."""


class FlowLimit(models.Model):
    """The limits and the pause of one lane, queue or function; those without any have no row.

    A claim locks the row of each limit that it is under. Running tasks are counted by their leases and stored nowhere
    else.
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
    probe_from = ReadableJSONField(_("outcomes before the probe"), null=True)
    counts_from = InstantField(_("failures count from"), null=True)
    recent = ReadableJSONField(_("recent starts"), default=list)
    created_at = InstantField(_("created at"))

    objects = FlowLimitManager()

    locked_at: datetime
    """The time at which a claim locked the row, by the queue's clock."""

    DECISIONS: ClassVar[tuple[str, ...]] = ("running", "starts", "per", "weight")

    class Meta:
        db_table = "django_tasks_retry_lanestate"  # as the statements of every release call it
        verbose_name = _("lane")
        verbose_name_plural = _("lanes")
        default_permissions = ("view",)
        permissions = [("control_lane", "Can pause and limit lanes")]
        constraints = [
            models.UniqueConstraint(name="dtr_one_lane", fields=["kind", "name"]),
            check("lane_kind_known", models.Q(kind__in=[kind for kind, _ in KIND_CHOICES])),
            check("lane_counts_in_range", between("running", 1, MOST) & between("starts", 1, MOST)),
            check("lane_window_in_range", between("per", SHORTEST_WINDOW, LONGEST_WINDOW)),
            check("lane_weight_in_range", between("weight", 1 / HEAVIEST, HEAVIEST)),
            check(
                "lane_times_in_range", in_range("created_at", "paused_at", "probe_at", "probing_since", "counts_from")
            ),
            # A queue is paused by its own row, which workers may not write.
            check(
                "lane_queue_not_paused",
                ~models.Q(kind=QUEUE) | models.Q(paused_at=None, probe_at=None, probing_since=None),
            ),
        ]
        indexes = [models.Index(name="dtr_tripped", fields=["kind", "name"], condition=TRIPPED)]

    def __str__(self) -> str:
        return self.label

    @property
    def label(self) -> str:
        """The label as people write it: a lane by its name, a queue or function with its kind before it."""
        return label_of(self.kind, self.name)

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
