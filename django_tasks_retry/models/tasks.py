"""Tasks, their results and their events, with every invariant as a named constraint."""

from __future__ import annotations

from typing import Any

from asgiref.sync import sync_to_async
from django.db import models
from django.db.models import F, Q, Value
from django.db.models.functions import Length
from django.db.models.lookups import GreaterThan, GreaterThanOrEqual, LessThan
from django.utils.translation import gettext_lazy as _

from ..rules.schedules.timing import LATEST as LATEST_SLOT
from ..rules.status import FINISHED, Status
from ..rules.transitions import POISON_AFTER
from ..utc import InstantField
from .querysets import TaskManager, Unfinished

STATUS_CHOICES = [
    (Status.PENDING.value, _("Pending")),
    (Status.RUNNING.value, _("Running")),
    (Status.SUCCESS.value, _("Success")),
    (Status.FAILED.value, _("Failed")),
    (Status.CANCELLED.value, _("Cancelled")),
]
# Plain strings, so that migrations name no code of ours.
IS_PENDING = Q(status=Status.PENDING.value)
IS_RUNNING = Q(status=Status.RUNNING.value)
IS_SUCCESS = Q(status=Status.SUCCESS.value)
IS_FAILED = Q(status=Status.FAILED.value)
KEYED = IS_PENDING & Q(GreaterThan(Length(F("lane")), 0))
IS_FINISHED = Q(status__in=[status.value for status in FINISHED])


LEASED = Q(locked_by__isnull=False, lock_expires_at__isnull=False)
UNLEASED = Q(locked_by__isnull=True, lock_expires_at__isnull=True)


UNCHECKED: Any = {"on_delete": models.DO_NOTHING, "null": True, "db_constraint": False, "db_index": False}
"""The settings of a reference that may outlive the row it names."""


def check(name: str, condition: Q) -> models.CheckConstraint:
    return models.CheckConstraint(name=f"dtr_{name}", condition=condition)


MAX_LENGTHS = {
    "func_path": 255, "queue": 64, "locked_by": 128, "unique_key": 200, "schedule_id": 128, "lane": 100,
    "waits_for": 255,
}  # fmt: skip
EARLIEST, LATEST = "1900-01-01", f"{LATEST_SLOT:%Y-%m-%d}"
"""Texts, which both databases compare with a time as it is stored."""

LONGEST = 1e9
"""Seconds. Infinity and NaN are larger, for PostgreSQL."""


def in_range(*fields: str) -> Q:
    """Times that every reader can hold, in whatever zone it lives."""
    bounds = Q()
    for field in fields:
        bounds &= Q(GreaterThanOrEqual(F(field), Value(EARLIEST))) & Q(LessThan(F(field), Value(LATEST)))
    return bounds


def iff(first: Q, second: Q) -> Q:
    """Both hold, or neither does."""
    return (first & second) | (~first & ~second)


class Task(models.Model):
    """One call of one function, kept until it is pruned."""

    # What was asked for. The guard lets no statement change it.
    id = models.UUIDField(primary_key=True, editable=False)
    run_id = models.UUIDField(_("run"))
    retry_of = models.ForeignKey("self", related_name="retries", **UNCHECKED)
    parent = models.ForeignKey("self", related_name="children", **UNCHECKED)
    schedule = models.ForeignKey("Schedule", related_name="runs", **UNCHECKED)
    batch = models.UUIDField(_("batch"), null=True, help_text=_("What it is a member of, and ends with."))
    func_path = models.CharField(_("task"), max_length=MAX_LENGTHS["func_path"])
    args = models.JSONField(_("arguments"), default=list)
    kwargs = models.JSONField(_("keyword arguments"), default=dict)
    unique_key = models.CharField(_("unique key"), max_length=MAX_LENGTHS["unique_key"], null=True)
    metadata = models.JSONField(_("metadata"), default=dict)
    # With a default in the database, for producers of an earlier release.
    lane = models.CharField(
        _("lane"), max_length=MAX_LENGTHS["lane"], default="", db_default="",
        help_text=_("Whose limits and share it is subject to; empty for none."),
    )  # fmt: skip
    backend = models.CharField(_("backend"), max_length=64, default="default")
    max_attempts = models.PositiveIntegerField(_("budget"))
    backoff = models.JSONField(_("backoff"), null=True)
    timeout = models.FloatField(_("timeout"), help_text=_("Seconds an attempt may take."))
    interval = models.FloatField(_("interval"), default=0, help_text=_("Seconds between repetitions; 0 for none."))
    slot = InstantField(
        _("slot"), null=True, help_text=_("The instant a repeating or scheduled task was meant to run.")
    )
    created_at = InstantField(_("created at"))
    expires_at = InstantField(
        _("expires at"), null=True, help_text=_("Cancelled if its first attempt has not begun by then.")
    )
    unique_until = InstantField(
        _("unique until"), null=True, help_text=_("Its key is taken until then, also after it has succeeded.")
    )
    deadline_at = InstantField(_("deadline"), null=True, help_text=_("Cancelled if it has not finished by then."))
    follows = models.ForeignKey("self", related_name="followers", **UNCHECKED)
    on_failure = models.JSONField(
        _("on failure"), null=True, help_text=_("The call that is enqueued if it fails for good.")
    )
    # Its place in the queue.
    queue = models.CharField(_("queue"), max_length=MAX_LENGTHS["queue"])
    priority = models.SmallIntegerField(_("priority"), default=0)
    eta = InstantField(_("not before"))
    refunds = models.PositiveIntegerField(_("refunds"), default=0)
    # How far it has come. Every claim and report changes these; PostgreSQL logs an update from the first changed column
    # to the last one, so they stand together at the end.
    status = models.CharField(_("status"), max_length=9, choices=STATUS_CHOICES, default=Status.PENDING.value)
    attempts = models.PositiveIntegerField(_("attempts"), default=0)
    started_at = InstantField(_("started at"), null=True)
    last_attempt_at = InstantField(_("last attempt at"), null=True)
    locked_by = models.CharField(_("locked by"), max_length=MAX_LENGTHS["locked_by"], null=True)
    lock_expires_at = InstantField(_("lock expires at"), null=True)
    moved_by = models.CharField(
        _("moved by"), max_length=160, null=True, help_text=_("Who made the last move; workers state their lease.")
    )
    updated_at = InstantField(_("updated at"))
    finished_at = InstantField(_("finished at"), null=True)
    last_error = models.JSONField(_("last error"), null=True)
    fingerprint = models.CharField(
        _("fingerprint"), max_length=16, null=True, help_text=_("Alike for failures that are alike; of the last one.")
    )
    progress = models.JSONField(_("progress"), null=True)
    waits_for = models.CharField(
        _("waits for"),
        max_length=MAX_LENGTHS["waits_for"],
        null=True,
        help_text=_("A batch or a signal, which wakes it before its time."),
    )
    crashes = models.PositiveSmallIntegerField(
        _("crashes"), null=True, help_text=_("How many of its last attempts in a row died with their process.")
    )

    objects = TaskManager()

    already_enqueued = False
    """True on the row that `enqueue` returns when an unfinished task with the same unique key existed already."""

    due_in = 0.0
    """Seconds from now, of a task that is yet to be written and has no eta of its own."""

    conflict: Any = None
    shard_key: str | None = None
    """The `Conflict` of a task that is yet to be written: what it wants if its unique key is taken."""

    expires_in: float | None = None
    """Seconds from now, of a task that is yet to be written, after which it expires."""

    unique_for: float | None = None
    """Seconds from now, of a task that is yet to be written, for which it holds its unique key."""

    deadline_in: float | None = None
    """Seconds from now, of a task that is yet to be written, after which its deadline has passed."""

    class Meta:
        verbose_name = _("task")
        verbose_name_plural = _("tasks")
        default_permissions = ("view", "delete")
        permissions = [
            ("retry_task", "Can retry task"),
            ("cancel_task", "Can cancel task"),
            ("view_task_payload", "Can view arguments, results and tracebacks"),
            ("enqueue_task", "Can enqueue tasks and edit the arguments of retries"),
            ("send_signal", "Can send signals to waiting tasks"),
            ("propose_task", "Can propose retries and cancellations to people"),
        ]
        constraints = [
            check("status_known", Q(status__in=[status.value for status in Status])),
            # PostgreSQL has one for all of them: guard/constraints.py.
            check("running_has_lease", (IS_RUNNING & LEASED) | (~IS_RUNNING & UNLEASED)),
            check("finished_has_time", iff(IS_FINISHED, Q(finished_at__isnull=False))),
            check("attempts_within_budget", Q(attempts__lte=F("max_attempts") + F("refunds"))),
            check("pending_has_budget", ~IS_PENDING | Q(attempts__lt=F("max_attempts") + F("refunds"))),
            check("running_spent_an_attempt", Q(attempts__gte=1) | ~(IS_RUNNING | IS_SUCCESS)),
            check("refunds_within_attempts", Q(refunds__gte=0) & Q(refunds__lte=F("attempts"))),
            check("priority_in_range", Q(priority__gte=-100) & Q(priority__lte=100)),
            check("repeating_has_slot", Q(interval=0) | Q(slot__isnull=False)),
            # What never changes (the arguments, say) is bounded by the guard when the task is written: a check would
            # read it again at every move.
            check(
                "times_in_range",
                in_range(
                    "created_at", "eta", "slot", "updated_at", "started_at", "last_attempt_at", "lock_expires_at",
                    "finished_at",
                ),
            ),
            check(
                "numbers_in_range",
                Q(max_attempts__range=(1, 1_000_000)) & Q(timeout__gt=0, timeout__lte=LONGEST)
                & (Q(interval=0) | Q(interval__range=(0.001, LONGEST))),
            ),
            models.UniqueConstraint(
                name="dtr_unique_key", fields=["queue", "unique_key"],
                condition=Unfinished & Q(unique_key__isnull=False),
            ),
            models.UniqueConstraint(
                name="dtr_slots", fields=["schedule", "slot"], condition=Q(schedule__isnull=False),
            ),
        ]  # fmt: skip
        indexes = [
            # PostgreSQL opens, locks and prepares each index anew for every statement, 2 µs each. So there are few, and
            # each serves several questions. Their conditions are short, for the same reason.
            # Each claim reads one bounded range per queue, priority and lane. Tasks without a lane come first.
            models.Index(name="dtr_lanes", fields=["queue", "priority", "lane", "eta", "id"], condition=IS_PENDING),
            # Which lanes have become due; and how many wait in a queue, as the console asks. Its condition is in words
            # that those questions alone use: a planner without statistics would take it for dtr_lanes.
            models.Index(name="dtr_keyed_due", fields=["queue", "priority", "eta", "id"], condition=KEYED),
            # The permits of a lane are its leases. What was begun blocks a lane of strict order.
            models.Index(
                name="dtr_begun", fields=["lane", "status"],
                condition=Q(lane__gt="", attempts__gt=0, finished_at__isnull=True),
            ),
            # Not on lock_expires_at, so that renewing a lease touches no index; and by status, which the fence
            # leaves out, so that no report is tempted to walk this index instead of the primary key.
            models.Index(name="dtr_leases", fields=["locked_by"], condition=IS_RUNNING),
            # The console's. A task that succeeds at its first attempt and has no cause but itself enters none of them.
            models.Index(
                name="dtr_failed", fields=["status", "id"], condition=IS_FAILED | (IS_PENDING & Q(attempts__gt=0))
            ),
            models.Index(
                name="dtr_failures", fields=["status", "fingerprint", "finished_at", "id"],
                condition=Q(fingerprint__isnull=False),
            ),
            # Whether the previous run of a schedule has ended, as the tick asks; and the series of `interval=`, for the
            # console.
            models.Index(
                name="dtr_series", fields=["schedule", "func_path", "id"],
                condition=Q(finished_at__isnull=True) & (Q(schedule__isnull=False) | Q(interval__gt=0)),
            ),
            # What expires, until it begins: a task without an expiry enters no index for it. Said without the status,
            # or a planner with old statistics would rather walk all of dtr_lanes.
            models.Index(
                name="dtr_expiring", fields=["expires_at"],
                condition=Q(
                    expires_at__isnull=False, finished_at__isnull=True, locked_by__isnull=True, attempts=F("refunds")
                ),
            ),
            models.Index(
                name="dtr_deadlines", fields=["deadline_at"],
                condition=Q(deadline_at__isnull=False, finished_at__isnull=True),
            ),
            # Unique keys that stay taken after the task has ended.
            models.Index(
                name="dtr_throttled", fields=["queue", "unique_key"], condition=Q(unique_until__isnull=False)
            ),
            models.Index(name="dtr_runs", fields=["run_id", "id"], condition=~Q(run_id=F("id"))),
            models.Index(name="dtr_retries", fields=["retry_of"], condition=Q(retry_of__isnull=False)),
            # Workflows. Only members of a batch, and tasks that wait for one, enter these indexes.
            models.Index(name="dtr_members", fields=["batch", "id"], condition=Q(batch__isnull=False)),
            # Members that are unfinished or ended lately, for the sweep; and members that failed.
            models.Index(name="dtr_ends", fields=["finished_at", "batch", "id"], condition=Q(batch__isnull=False)),
            models.Index(
                name="dtr_failed_members", fields=["batch", "id"],
                condition=Q(status__in=["FAILED", "CANCELLED"], batch__isnull=False),
            ),
            # Tasks that wait for a batch or a signal, and poison tasks. No task is both: an attempt that begins to wait
            # has ended by itself.
            models.Index(
                name="dtr_waiting", fields=["waits_for", "id"],
                condition=Q(finished_at__isnull=True, locked_by__isnull=True)
                & (Q(waits_for__isnull=False) | Q(crashes__gte=POISON_AFTER)),
            ),
        ]  # fmt: skip

    def __str__(self) -> str:
        return f"{self.func_path} {self.pk}"

    @property
    def is_finished(self) -> bool:
        return self.status in FINISHED

    @property
    def spent(self) -> int:
        """Attempts spent; refunds not counted."""
        return self.attempts - self.refunds

    def delete(self, using: str | None = None, **_: Any) -> tuple[int, dict[str, int]]:  # type: ignore[override]
        """Delete this finished task with its result, events and steps."""
        rows = Task.objects.using(using) if using or self._state.db is None else Task.objects.using(self._state.db)
        done: tuple[int, dict[str, int]] = rows.filter(pk=self.pk).delete()
        return done

    def cancel(self, *, by: Any = None, reason: str = "") -> None:
        """Cancel this task, pending or running. Raises IllegalMove if it has finished."""
        from ..taskqueue import cancel_one

        cancel_one(self, by=by, reason=reason)

    def retry(self, *, by: Any = None, reason: str = "", resume: bool = False) -> Task:
        """Do this finished task again: a new task with the same call. Raises IllegalMove if it has not finished.

        With `resume` it goes on from the steps that this one remembered.
        """
        from ..taskqueue import retry_one

        return retry_one(self, by=by, reason=reason, resume=resume)

    async def acancel(self, *, by: Any = None, reason: str = "") -> None:
        """See cancel()."""
        await sync_to_async(self.cancel)(by=by, reason=reason)

    async def aretry(self, *, by: Any = None, reason: str = "", resume: bool = False) -> Task:
        """See retry()."""
        return await sync_to_async(self.retry)(by=by, reason=reason, resume=resume)
