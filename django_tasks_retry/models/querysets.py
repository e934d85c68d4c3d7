"""Named questions about tasks and queues."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, Literal, overload
from uuid import UUID

from asgiref.sync import sync_to_async
from django.db import transaction
from django.db.models import BooleanField, Exists, F, Manager, OuterRef, Q, QuerySet
from django.db.models.expressions import RawSQL

from ..clock import Now
from ..rules.calls import CallOptions, TaskOf
from ..rules.status import FINISHED, UNFINISHED, Status
from ..rules.transitions import POISON_AFTER

if TYPE_CHECKING:
    from typing import Unpack

    from ..taskqueue import Batch
    from . import Queue, Schedule, Task  # noqa: F401 - named as a text below

CHUNK = 500
HISTORY = ("TaskResult", "TaskEvent", "Step")
UNFINISHED_VALUES = [status.value for status in UNFINISHED]
Unfinished = Q(status__in=UNFINISHED_VALUES)


# SQLite uses a partial index only if the query repeats its condition literally, without parameters.
IS_UNFINISHED = RawSQL("status IN ('PENDING', 'RUNNING')", [], BooleanField())


class TaskQuerySet(QuerySet["Task"]):
    """Tasks, by the questions that people ask about them."""

    def delete(self) -> tuple[int, dict[str, int]]:
        """Delete finished tasks, then their results, events and steps, which the guard keeps as long as the task."""
        history = [self.model._meta.apps.get_model("django_tasks_retry", name) for name in HISTORY]
        with transaction.atomic(using=self.db):
            ids = list(self.values_list("pk", flat=True))
            done = super().delete()
            for start in range(0, len(ids), CHUNK):
                for model in history:
                    model._base_manager.using(self.db).filter(task_id__in=ids[start : start + CHUNK]).delete()
        return done

    delete.alters_data = True  # type: ignore[attr-defined]
    delete.queryset_only = True  # type: ignore[attr-defined]

    def pending(self) -> TaskQuerySet:
        """Waiting, due or not."""
        return self.filter(status=Status.PENDING)

    def due(self) -> TaskQuerySet:
        """Waiting, with an eta that has passed."""
        return self.pending().filter(eta__lte=Now())

    def suspended(self) -> TaskQuerySet:
        """Waiting for a batch or a signal, which wakes it before its time."""
        return self.filter(finished_at=None, locked_by=None, waits_for__isnull=False)

    def may_begin(self, only: UUID | None = None, *, poison: bool = False) -> TaskQuerySet:
        """Tasks that are not expired before their first attempt, not behind an unfinished task, and not poison.

        With `only`, this one task, also if it is poison; with `poison`, these alone.
        """
        whom = Q(crashes=None) | Q(crashes__lt=POISON_AFTER) if only is None else Q(pk=only)
        whom = Q(crashes__gte=POISON_AFTER) if poison else whom
        in_time = Q(expires_at=None) | Q(expires_at__gt=Now())
        in_time |= Q(attempts__gt=F("refunds")) & (Q(deadline_at=None) | Q(deadline_at__gt=Now()))
        ahead = self.model._default_manager.filter(pk=OuterRef("follows"), finished_at=None)
        return self.filter(whom, in_time, Q(follows=None) | ~Exists(ahead))

    def scheduled(self) -> TaskQuerySet:
        """Waiting for a later eta, before the first attempt."""
        return self.pending().filter(eta__gt=Now(), attempts=F("refunds"))

    def retrying(self) -> TaskQuerySet:
        """Waiting for another attempt."""
        # The second condition follows from the first; it is said for the sake of the index.
        return self.pending().filter(attempts__gt=F("refunds")).filter(attempts__gt=0)

    def running(self) -> TaskQuerySet:
        """Claimed by a worker."""
        return self.filter(status=Status.RUNNING)

    def lease_expired(self) -> TaskQuerySet:
        """Claimed by a worker that has not renewed its lease."""
        return self.running().filter(lock_expires_at__lte=Now())

    def leased_to(self, worker_id: str) -> TaskQuerySet:
        """Claimed by this worker."""
        return self.running().filter(locked_by=worker_id)

    def begun_in(self, lane: str) -> TaskQuerySet:
        """Unfinished tasks of this lane that were claimed, in the words of the index that holds no others."""
        return self.filter(lane=lane, lane__gt="", attempts__gt=0, finished_at=None)

    def unfinished(self) -> TaskQuerySet:
        """Pending or running."""
        return self.filter(Unfinished)

    def finished(self) -> TaskQuerySet:
        """Successful, failed or cancelled."""
        return self.filter(status__in=FINISHED)

    def successful(self) -> TaskQuerySet:
        """Ended by returning."""
        return self.filter(status=Status.SUCCESS)

    def failed(self) -> TaskQuerySet:
        """Ended without success, and not retried by itself."""
        return self.filter(status=Status.FAILED)

    def cancelled(self) -> TaskQuerySet:
        """Ended by somebody's wish."""
        return self.filter(status=Status.CANCELLED)


class QueueQuerySet(QuerySet["Queue"]):
    def paused(self) -> QueueQuerySet:
        return self.filter(paused_at__isnull=False)


class ScheduleQuerySet(QuerySet["Schedule"]):
    def active(self) -> ScheduleQuerySet:
        """Neither paused nor gone from the code, and not at its end."""
        return self.filter(paused_at__isnull=True, vanished_at__isnull=True, next_at__isnull=False)

    def free(self) -> ScheduleQuerySet:
        """Those whose slot does not queue behind an unfinished run."""
        runs = self.model._meta.apps.get_model("django_tasks_retry", "Task")._default_manager
        return self.exclude(Q(overlap="queue") & Q(Exists(runs.filter(finished_at=None, schedule_id=OuterRef("pk")))))

    def create(self, **given: Any) -> Schedule:
        """Check, bind and plan: `name`, `task`, and `cron` or `every`; see `taskqueue.create_schedule`."""
        from ..taskqueue import create_schedule

        return create_schedule(**given)

    def update_or_create(
        self, defaults: Mapping[str, Any] | None = None, create_defaults: Mapping[str, Any] | None = None, **given: Any
    ) -> tuple[Schedule, bool]:
        """Update or create by the service layer: a new timing counts from now, other changes keep the next slot."""
        from ..taskqueue import change_schedule, create_schedule

        wishes, name = dict(defaults or {}), given.pop("name")
        if self.filter(pk=name, **given).exists():
            return change_schedule(name, **wishes), False
        fresh = wishes if create_defaults is None else create_defaults
        return create_schedule(name=name, **given, **fresh), True


if TYPE_CHECKING:  # for those that do not run Django's plugin

    class QueueManager(QueueQuerySet, Manager["Queue"]): ...  # type: ignore[misc]

    class ScheduleManager(ScheduleQuerySet, Manager["Schedule"]): ...  # type: ignore[misc]

    class TaskBase(TaskQuerySet, Manager["Task"]): ...  # type: ignore[misc]

else:
    querysets = QueueQuerySet, ScheduleQuerySet, TaskQuerySet
    QueueManager, ScheduleManager, TaskBase = map(Manager.from_queryset, querysets)


class TaskManager(TaskBase):
    """`Task.objects`: the named questions, and the door to the service layer."""

    def enqueue(
        self,
        func: Callable[..., Any] | TaskOf[..., Any],
        args: Iterable[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
        **options: Unpack[CallOptions],
    ) -> Task:
        """Enqueue one call. `options` are the fields of `taskqueue.EnqueueOptions`: eta, queue, priority, …

        `run_after` and `queue_name` are accepted for `eta` and `queue`.
        """
        from ..taskqueue import EnqueueOptions, enqueue

        return enqueue(EnqueueOptions.with_options(func, args=args, kwargs=kwargs or {}, **options))

    async def aenqueue(
        self,
        func: Callable[..., Any] | TaskOf[..., Any],
        args: Iterable[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
        **options: Unpack[CallOptions],
    ) -> Task:
        """See enqueue()."""
        return await sync_to_async(self.enqueue)(func, args, kwargs, **options)

    @overload
    def enqueue_many(self, requests: Iterable[Any], *, then: Any = None) -> list[Task]: ...

    @overload
    def enqueue_many(self, requests: Iterable[Any], *, returning: Literal[True]) -> list[Task]: ...

    @overload
    def enqueue_many(self, requests: Iterable[Any], *, returning: Literal[False]) -> int: ...

    def enqueue_many(self, requests: Iterable[Any], *, then: Any = None, returning: bool = True) -> list[Task] | int:
        """Enqueue many calls at once: `call(…)`, `EnqueueOptions`, dictionaries of options, or `(func, args)` pairs.

        With `then` they are a batch, and that call is due once all of them have ended, however they did.
        With `returning=False` it returns how many, and needs no more memory for a million than for a thousand.
        """
        from ..taskqueue import enqueue_batch, enqueue_many, enqueue_stream

        if then is not None:
            return enqueue_batch(requests, then=then)
        return enqueue_many(requests) if returning else enqueue_stream(requests)

    def batch(self, of: Task | UUID | str, *, backend: str = "default") -> Batch:
        """Return the batch of this id, or the one that this task is a member of."""
        from ..taskqueue import Batch

        return Batch.find(of, backend)

    async def aenqueue_many(self, requests: Iterable[Any], **options: Any) -> Any:
        """See enqueue_many()."""
        return await sync_to_async(self.enqueue_many)(requests, **options)
