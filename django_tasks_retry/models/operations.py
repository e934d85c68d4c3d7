"""Rows around the tasks: queues, workers, statistics, and decisions of operators."""

from typing import Any

from django.db import models
from django.utils.translation import gettext_lazy as _

from ..utc import InstantField
from .querysets import QueueManager
from .tasks import MAX_LENGTHS


class Queue(models.Model):
    """Decisions of operators about a queue. A queue without a row is running."""

    name = models.CharField(_("name"), max_length=MAX_LENGTHS["queue"], primary_key=True)
    paused_at = InstantField(_("paused at"), null=True)
    paused_by = models.CharField(_("paused by"), max_length=160, default="")
    reason = models.CharField(_("reason"), max_length=200, default="")

    objects = QueueManager()

    class Meta:
        verbose_name = _("queue")
        verbose_name_plural = _("queues")
        default_permissions = ("view",)
        permissions = [("pause_queue", "Can pause queue")]

    def __str__(self) -> str:
        return self.name


class Worker(models.Model):
    """A worker process that is, or was, alive. Its children's ids begin with its own, then a slash."""

    id = models.CharField(_("worker"), max_length=MAX_LENGTHS["locked_by"], primary_key=True)
    host = models.CharField(_("host"), max_length=255)
    pid = models.PositiveIntegerField(_("process"))
    version = models.CharField(_("version"), max_length=32)
    # With a default in the database, for workers of an older release.
    release = models.CharField(_("release"), max_length=100, default="", db_default="")
    versions = models.JSONField(_("versions"), null=True, help_text=_("Of Python and the installed packages."))
    backend = models.CharField(_("backend"), max_length=64, default="default")
    queues = models.JSONField(_("queues"), default=list, help_text=_("Patterns of the queues it serves."))
    exclude = models.JSONField(_("excluded queues"), default=list)
    tasks = models.JSONField(_("tasks"), default=list, help_text=_("Paths of the functions it knows."))
    # Null from workers of earlier versions, which know none.
    schedules = models.JSONField(_("schedules"), null=True, help_text=_("Names of the schedules in its code."))
    processes = models.PositiveIntegerField(_("processes"))
    slots = models.PositiveIntegerField(_("slots"))
    # Of the slots; the others are for coroutines. Workers of an earlier release do not tell.
    threads = models.PositiveIntegerField(_("threads"), default=0, db_default=0)
    running = models.PositiveIntegerField(_("running"), default=0)
    # Only those who hear wake-ups are chosen by them. Workers of an earlier release choose nobody, and claim at each.
    listening = models.BooleanField(_("hears wake-ups"), default=False, db_default=False)
    started_at = InstantField(_("started at"))
    heartbeat_at = InstantField(_("heartbeat at"))
    stopped_at = InstantField(_("stopped at"), null=True)
    stop_asked_at = InstantField(_("stop asked at"), null=True)
    stop_asked_by = models.CharField(_("stop asked by"), max_length=160, default="")

    class Meta:
        verbose_name = _("worker")
        verbose_name_plural = _("workers")
        default_permissions = ("view",)
        permissions = [("control_worker", "Can control worker")]

    def __str__(self) -> str:
        return self.id


def count() -> Any:
    # With a default of the database's own: workers of the version before go on adding during a deploy.
    return models.BigIntegerField(default=0, db_default=0)


class Histograms(models.Model):
    """Histograms of wait and run times of attempts: a column for each bucket."""

    wait_seconds = models.FloatField(_("seconds waited"), default=0, db_default=0)
    ran_10ms, ran_50ms, ran_250ms, ran_1s, ran_5s, ran_30s, ran_5m, ran_1h, ran_more = (count() for _n in range(9))
    waited_10ms, waited_50ms, waited_250ms, waited_1s, waited_5s = (count() for _n in range(5))
    waited_30s, waited_5m, waited_1h, waited_more = (count() for _n in range(4))

    class Meta:
        abstract = True


class TaskStat(Histograms):
    """Attempts that ended within one minute, by queue and function. Workers add to it; charts read it."""

    id = models.BigAutoField(primary_key=True)
    minute = InstantField(_("minute"))
    queue = models.CharField(_("queue"), max_length=MAX_LENGTHS["queue"])
    func_path = models.CharField(_("task"), max_length=MAX_LENGTHS["func_path"])
    completed = models.PositiveIntegerField(_("completed"), default=0)
    retried = models.PositiveIntegerField(_("failed, to be tried again"), default=0)
    failed = models.PositiveIntegerField(_("failed for good"), default=0)
    seconds = models.FloatField(_("seconds spent"), default=0)

    class Meta:
        verbose_name = _("task statistic")
        verbose_name_plural = _("task statistics")
        default_permissions = ()
        constraints = [models.UniqueConstraint(name="dtr_one_stat", fields=["minute", "queue", "func_path"])]

    def __str__(self) -> str:
        return f"{self.minute} {self.queue} {self.func_path}"


class TaskTotal(Histograms):
    """All attempts that ever ended, by queue and function: counters that only grow, and are never pruned."""

    id = models.BigAutoField(primary_key=True)
    queue = models.CharField(_("queue"), max_length=MAX_LENGTHS["queue"])
    func_path = models.CharField(_("task"), max_length=MAX_LENGTHS["func_path"])
    completed, retried, failed = (count() for _n in range(3))
    seconds = models.FloatField(_("seconds spent"), default=0, db_default=0)

    class Meta:
        verbose_name = _("task total")
        verbose_name_plural = _("task totals")
        default_permissions = ()
        constraints = [models.UniqueConstraint(name="dtr_one_total", fields=["queue", "func_path"])]

    def __str__(self) -> str:
        return f"{self.queue} {self.func_path}"


class BacklogStat(models.Model):
    """How many tasks of a queue were due at one minute, and how long the first had waited; of all, under no name."""

    id = models.BigAutoField(primary_key=True)
    minute = InstantField(_("minute"))
    queue = models.CharField(_("queue"), max_length=MAX_LENGTHS["queue"], default="")
    due = models.PositiveIntegerField(_("due"), default=0)
    oldest = models.FloatField(_("seconds waited"), default=0)

    class Meta:
        verbose_name = _("backlog statistic")
        verbose_name_plural = _("backlog statistics")
        default_permissions = ()
        constraints = [models.UniqueConstraint(name="dtr_one_backlog", fields=["queue", "minute"])]

    def __str__(self) -> str:
        return f"{self.minute} {self.queue}"


class OperatorEvent(models.Model):
    """A decision about a queue, a worker or a schedule, by an operator or by the queue's rules. Append-only."""

    id = models.BigAutoField(primary_key=True)
    kind = models.CharField(_("kind"), max_length=24)
    subject = models.CharField(_("subject"), max_length=MAX_LENGTHS["locked_by"])
    ts = InstantField(_("time"))
    actor = models.CharField(_("actor"), max_length=160)
    reason = models.CharField(_("reason"), max_length=200, default="")
    data = models.JSONField(_("data"), null=True)

    class Meta:
        verbose_name = _("operator event")
        verbose_name_plural = _("operator events")
        default_permissions = ()
        indexes = [
            models.Index(name="dtr_decisions", fields=["subject", "id"]),
            models.Index(name="dtr_decision_kinds", fields=["kind", "id"]),
        ]

    def __str__(self) -> str:
        return f"{self.kind} {self.subject}"
