"""Conflicts: a call whose unique key is taken, where it wants more than the task that is there.

Calls that settle one key wait for each other: they look before they write, and what they saw must still be true. Where
a task runs under the key, the next one takes the key's second place and waits for it to finish. So nothing ever gets in
the way of a running task that fails and goes back to PENDING under its own key.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import NamedTuple

from ...clock import now
from ...errors import AlreadyEnqueued
from ...models import Task
from ...rules.status import Status
from ...rules.transitions import RESCHEDULE
from ...rules.unique import CLOSE_ENOUGH, Conflict, OnConflict, other_place, places_of
from ..engines import Engine
from ..events import events_of, write_events
from ..locks import locked
from .new_tasks import new_task

ACTOR = "code"


class Holders(NamedTuple):
    """Who holds a key: the one that waits, and the one that runs."""

    waiting: Task | None
    running: Task | None


def settle(task: Task, engine: Engine) -> Task:
    """The task as it was written, or the unfinished one that does its work. Looks again where that has moved on."""
    conflict: Conflict = task.conflict
    engine.lock_key(task.queue, conflict.key)
    while True:
        stored = SETTLED[conflict.mode](task, holders_of(task, engine), engine)
        if stored is not None:
            return stored


def holders_of(task: Task, engine: Engine) -> Holders:
    places = [new_task(queue=task.queue, unique_key=key) for key in places_of(task.conflict.key)]
    holders = list(engine.holders(places))
    waiting = (holder for holder in holders if holder.status == Status.PENDING)
    running = (holder for holder in holders if holder.status == Status.RUNNING)
    return Holders(next(waiting, None), next(running, None))


def kept(holder: Task) -> Task:
    holder.already_enqueued = True
    return holder


def keep(task: Task, holders: Holders, engine: Engine) -> Task | None:
    if holders.waiting:
        return moved_on(holders.waiting, task.conflict, engine)
    return kept(holders.running) if holders.running else written(task, engine)


def refuse(task: Task, holders: Holders, engine: Engine) -> Task | None:
    holder = holders.running or holders.waiting
    if holder is not None:
        raise AlreadyEnqueued(task.conflict.key, holder)
    return written(task, engine)


def replace(task: Task, holders: Holders, engine: Engine) -> Task | None:
    """The newest call wins: it takes the place of the one that waits, and comes after the one that runs."""
    if holders.waiting and not cancelled(holders.waiting, task, engine):
        return None
    return behind(task, holders.running, engine)


def again(task: Task, holders: Holders, engine: Engine) -> Task | None:
    """One more run after the one that runs; where one waits, that is the one."""
    if holders.waiting:
        return moved_on(holders.waiting, task.conflict, engine)
    return behind(task, holders.running, engine)


SETTLED: dict[OnConflict, Callable[[Task, Holders, Engine], Task | None]] = {
    OnConflict.KEEP: keep,
    OnConflict.RAISE: refuse,
    OnConflict.REPLACE: replace,
    OnConflict.AGAIN: again,
}


def written(task: Task, engine: Engine) -> Task | None:
    """None where the key was taken meanwhile, by a call that does not wait for others."""
    return next(iter(engine.insert([task])), None)


def behind(task: Task, running: Task | None, engine: Engine) -> Task | None:
    """Write it to start no earlier than the running one has finished."""
    task.unique_key = task.conflict.key
    if running is not None:
        task.unique_key, task.follows_id = other_place(task.conflict.key, running.unique_key or ""), running.pk
    return written(task, engine)


def cancelled(waiting: Task, task: Task, engine: Engine) -> bool:
    """False where a worker was faster, and it runs."""
    ids = locked(Task.objects.using(engine.using).pending(), [waiting.pk], wait=True)
    return bool(ids and engine.cancel(ids, ACTOR, f"replaced by {task.id}", wait=True))


def moved_on(waiting: Task, conflict: Conflict, engine: Engine) -> Task | None:
    """The one that waits; a debounce puts it off. One that waits for its retry has its time. None where it runs now."""
    if conflict.debounce is None or waiting.spent:
        return kept(waiting)
    tasks = Task.objects.using(engine.using)
    if not locked(tasks.pending(), [waiting.pk], wait=True):
        return None
    moment = now(engine.using)
    eta = moment + timedelta(seconds=conflict.debounce)
    if conflict.debounce_max is not None:
        eta = min(eta, waiting.created_at + timedelta(seconds=conflict.debounce_max))
    if abs(eta - waiting.eta) > timedelta(seconds=conflict.debounce * CLOSE_ENOUGH):
        tasks.filter(pk=waiting.pk).update(eta=eta, updated_at=moment, moved_by=ACTOR)
        place = {"eta": eta.isoformat(), "queue": waiting.queue, "priority": waiting.priority, "reason": "debounced"}
        write_events(events_of(RESCHEDULE, waiting, ACTOR, moment, place), engine.using)
        waiting.eta, waiting.updated_at, waiting.moved_by = eta, moment, ACTOR
    return kept(waiting)
