"""Actions on tasks: retry and reschedule, by people and by code; and both of these and cancel on one task.

Acting on many, rows in the wrong status are skipped and counted, never an error.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from functools import partial
from itertools import count, islice
from typing import Any, TypeAlias
from uuid import UUID

from django.db import IntegrityError, transaction

from ... import registry
from ...clock import Now
from ...conf import has_shards
from ...errors import IllegalMove
from ...models import Task, TaskEvent
from ...rules.payload import noted
from ...rules.status import Status
from ...rules.transitions import EventKind
from ..database import database
from ..enqueue.checks import checked_delay, checked_instant, checked_priority, checked_queue
from ..enqueue.enqueue import prepare
from ..enqueue.insert import insert_with_middleware
from ..enqueue.notify import notify_work_on_commit, send_enqueued
from ..enqueue.options import EnqueueOptions
from ..events import RESCHEDULED, actor_of, event, write_events, write_rescheduled
from ..new_tasks import same_call
from ..reading import readable, repeatable
from ..shards import hold
from ..timeouts import locked, until_free
from ..workflows.canary import Canary
from ..workflows.cancel import CHUNK, Changed, cancel, chunks, tally
from ..workflows.steps import copy_steps

OtherCall: TypeAlias = tuple[Sequence[Any], Mapping[str, Any]] | None


def retry(  # noqa: PLR0913 - each is a wish of its own
    ids: Iterable[UUID],
    *,
    eta: datetime | None = None,
    step: timedelta = timedelta(0),
    queue: str | None = None,
    priority: int | None = None,
    by: Any = None,
    reason: str = "",
    resume: bool = False,
    before: str = "",
    call: OtherCall = None,
    canary: Canary | None = None,
    backend: str = "default",
) -> list[Task]:
    """Do finished tasks again, each as a new task with the same call. The old rows stay as they were.

    With `resume` they go on from the steps that were remembered, or from those `before` one; without, they begin anew.
    A `call` gives other arguments, which are checked as at enqueue.
    They are due at once; with an eta the first is due then, and each of the others a `step` after the one before.
    They go into the queue, and have the priority, of the task before, unless others are given.
    With a `canary`, tasks wait for the first ones; give an eta, too: theirs counts from when those have succeeded.
    A task whose row cannot be read cannot be copied: it is skipped.
    """
    using, actor, reason = database(backend), actor_of(by), noted(reason)
    fresh: list[Task] = []
    due, place = due_times(eta, step), place_wished(queue, priority, backend)
    rest, told = iter(ids), {"edited": True} if call else {}
    while chunk := list(islice(rest, canary.left if canary and canary.left else CHUNK)):
        with transaction.atomic(using=using):
            copies = copies_of(chunk, map(partial(timed, canary), due), place, call, using)
            written = [task for task in insert_with_middleware(copies, using) if not task.already_enqueued]
            write_events([retried(task, actor, reason, told | cause_of(canary)) for task in written], using)
            if canary and canary.left and written:
                canary.write(written, actor, reason, using)
                canary = canary.after(len(written))
            pairs = {task.retry_of_id: task.pk for task in written if task.retry_of_id}
            copy_steps(pairs, using, resume=resume, before=before)
        send_enqueued(written)
        fresh += written
    return fresh


def copies_of(
    ids: Sequence[UUID], due: Iterable[dict[str, Any]], place: dict[str, Any], call: OtherCall, using: str
) -> list[Task]:
    finished = repeatable(Task.objects.using(using).finished(), ids)
    ended = ended_series(finished, using)
    return [
        copy_of(task, ({} if task.pk in ended else ONCE) | when | place | edits_of(task, call))
        for task, when in zip(finished, due, strict=False)
    ]


def edits_of(task: Task, call: OtherCall) -> dict[str, Any]:
    """Return the columns that another call changes."""
    if call is None:
        return {}
    func: Any = registry.find(task.func_path)
    if func is None:
        raise IllegalMove(f"This process does not know {task.func_path}, so it cannot check other arguments.")
    made = prepare(EnqueueOptions(func, *call, queue=task.queue, backend=task.backend))
    return {"args": made.args, "kwargs": made.kwargs, "lane": made.lane or task.lane}


def due_times(eta: datetime | None, step: timedelta) -> Iterator[dict[str, Any]]:
    for n in count():
        yield {} if eta is None else {"eta": checked_instant("eta", eta + n * step)}


def timed(canary: Canary | None, due: dict[str, Any]) -> dict[str, Any]:
    """Return the columns of the time: a canary is due at once, and others wait for the canaries."""
    if canary is None:
        return due
    return {} if canary.left else canary.held(due["eta"])


def cause_of(canary: Canary | None) -> dict[str, str]:
    if canary is None:
        return {}
    return {"cause": f"{'a canary' if canary.left else 'waits for the canaries'} of {canary.operation}"}


ONCE: dict[str, Any] = {"interval": 0, "slot": None}


def copy_of(task: Task, changes: dict[str, Any]) -> Task:
    return same_call(task, retry_of_id=task.pk, schedule_id=task.schedule_id, batch=task.batch, **changes)


def ended_series(tasks: Sequence[Task], using: str) -> set[UUID]:
    """Those with which a series ended: a retry resumes it. Else a next occurrence or an earlier retry carries it on."""
    ended = {task.pk for task in tasks if task.interval and task.status != Status.SUCCESS}
    if not ended:
        return ended
    carried_on = Task.objects.using(using).filter(retry_of__in=ended, interval__gt=0)
    return ended - set(carried_on.values_list("retry_of", flat=True))


def retried(task: Task, actor: str, reason: str, more: dict[str, Any]) -> TaskEvent:
    data = {"retry_of": task.retry_of_id, "reason": reason, **more}
    return event(task, EventKind.RETRIED, actor, task.created_at, data)


def reschedule(
    ids: Iterable[UUID],
    *,
    eta: datetime | timedelta | None = None,
    queue: str | None = None,
    priority: int | None = None,
    by: Any = None,
    reason: str = "",
    backend: str = "default",
) -> Changed:
    """Change when, where and how urgently PENDING tasks run. Without any wish: run now.

    Rows that others keep locked are skipped after a while, and hold up no other.
    """
    using, actor, reason, changed = database(backend), actor_of(by), noted(reason), Changed()
    place = partial(place_free, using=using, actor=actor, reason=reason, wishes=wished(eta, queue, priority, backend))
    for chunk in chunks(ids):
        try:
            done = until_free(Task.objects.using(using).pending(), chunk, place)
        except IntegrityError as error:
            if "unique_key" not in str(error):
                raise
            raise IllegalMove(
                f"Queue {queue!r} holds an unfinished task with the same unique key. Finish or cancel that one first."
            ) from error
        changed = tally(changed, chunk, done)
    return changed


def place_free(
    ids: Sequence[UUID], *, wait: bool, using: str, actor: str, reason: str, wishes: dict[str, Any]
) -> list[UUID]:
    ids = locked(Task.objects.using(using).pending(), ids, wait=wait)
    with hold(in_queue(wishes.get("queue"), ids, using), using):
        update(ids, using, actor, **wishes)
    moved = readable(Task.objects.using(using).only(*RESCHEDULED), ids)
    write_rescheduled(moved, actor, reason, using)
    notify_work_on_commit({task.queue for task in moved}, using)
    return ids


def in_queue(queue: str | None, ids: Sequence[UUID], using: str) -> list[Task]:
    """Return the tasks as they would be in another queue, which may belong to another shard."""
    moved = list(Task.objects.using(using).filter(pk__in=ids)) if queue is not None and has_shards() else []
    for task in moved:
        task.queue = queue or ""
    return moved


def wished(eta: datetime | timedelta | None, queue: str | None, priority: int | None, backend: str) -> dict[str, Any]:
    wishes = place_wished(queue, priority, backend)
    if isinstance(eta, timedelta):
        wishes["eta"] = Now() + timedelta(seconds=checked_delay(eta))
    elif eta is not None:
        wishes["eta"] = checked_instant("eta", eta)
    elif not wishes:
        wishes["eta"] = Now()
    # A new time is a decision: what it waited for must not overrule it. It looks again when it runs.
    return wishes | {"waits_for": None} if "eta" in wishes else wishes


def place_wished(queue: str | None, priority: int | None, backend: str) -> dict[str, Any]:
    wishes: dict[str, Any] = {}
    if queue is not None:
        wishes["queue"] = checked_queue(queue, backend)
    if priority is not None:
        wishes["priority"] = checked_priority(priority)
    return wishes


def cancel_one(task: Task, *, by: Any = None, reason: str = "") -> None:
    """Cancel, and bring the instance up to date; raise IllegalMove if the task has finished."""
    changed = cancel([task.pk], by=by, reason=reason, backend=task.backend)
    task.refresh_from_db(using=database(task.backend), fields=CHANGED_BY_CANCEL)
    if not changed.done and not task.is_finished:
        raise IllegalMove(f"Somebody else keeps the {task.status} task {task.pk} locked. Try again.")
    if not changed.done:
        raise IllegalMove(f"A {task.status} task cannot become CANCELLED.")


CHANGED_BY_CANCEL = ["status", "locked_by", "lock_expires_at", "moved_by", "updated_at", "finished_at", "attempts"]


def retry_one(task: Task, **wishes: Any) -> Task:
    fresh = retry([task.pk], backend=task.backend, **wishes)
    if fresh:
        return fresh[0]
    tasks = Task.objects.using(database(task.backend))
    task.refresh_from_db(using=tasks.db, fields=["status"])
    if task.is_finished and not repeatable(tasks, [task.pk]):
        raise IllegalMove(f"The row of task {task.pk} cannot be read, so its call cannot be repeated. Enqueue it anew.")
    if task.is_finished:
        raise IllegalMove(
            f"Another unfinished task holds the unique key {task.unique_key!r}. It already does the work."
        )
    raise IllegalMove(f"A {task.status} task cannot be retried: it has not finished. Cancel it first, or let it run.")


def update(ids: Sequence[UUID], using: str, actor: str, **changes: Any) -> None:
    Task.objects.using(using).filter(pk__in=ids).update(**{"updated_at": Now(), "moved_by": actor, **changes})
