"""Unique keys: `on_conflict` and `debounce` say what happens if an unfinished task holds the key.

Calls that resolve one key wait for each other: they read before they write, and what they read must still be true. If a
task runs under the key, the next one takes the key's second place and waits for it to finish. So nothing ever blocks a
running task that fails and returns to PENDING under its own key.
"""

from collections.abc import Callable, Sequence
from datetime import timedelta
from enum import StrEnum
from typing import Any, NamedTuple

from ...clock import Now, now
from ...conf import options, suggestion
from ...durations import MORE_THAN_ZERO, checked_seconds
from ...errors import AlreadyEnqueued, InvalidCall
from ...models import MAX_LENGTHS, Task
from ...rules.status import Status
from ...rules.transitions import RESCHEDULE
from ..engines import Engine
from ..events import events_of, write_events
from ..new_tasks import has_end, key_of, new_task
from ..timeouts import locked

SUFFIX = ":again"
"""A key has two places: its own, and this one for the task that runs once more after the one that runs."""

CLOSE_ENOUGH = 0.05
"""The share of `debounce` by which a waiting task is not worth moving: a burst writes twenty moves, not a thousand."""


class OnConflict(StrEnum):
    """`keep` returns the holder of the key, `replace` cancels it, `run_again` runs after it, `raise` refuses."""

    KEEP = "keep"
    REPLACE = "replace"
    RUN_AGAIN = "run_again"
    RAISE = "raise"


class Conflict(NamedTuple):
    """A call's choice for a key that is in use. Times are seconds."""

    mode: OnConflict
    key: str
    debounce: float | None = None
    debounce_max: float | None = None


def places_of(key: str) -> tuple[str, str]:
    return key, f"{key}{SUFFIX}"


def other_place(key: str, taken: str) -> str:
    first, second = places_of(key)
    return second if taken == first else first


MODES = tuple(mode.value for mode in OnConflict)
ACTOR = "code"


def set_conflict(
    task: Task,
    on_conflict: str | None = None,
    unique_for: float | timedelta | None = None,
    debounce: float | timedelta | None = None,
    debounce_max: float | timedelta | None = None,
) -> None:
    """Give the task its mode, and a debounced one its delay; InvalidCall if the options contradict each other."""
    given = "on_conflict" if on_conflict else "debounce" if unique_for is None else "unique_for"
    if not task.unique_key:
        raise InvalidCall(f"{given}= says what happens if a unique key is taken. Give unique_key=, too.")
    if unique_for is not None:
        task.unique_for = checked_throttle(task, unique_for)
    mode = checked_mode(on_conflict, debounced=debounce is not None)
    if mode is not OnConflict.KEEP or debounce is not None or unique_for is not None:
        check_place(task, mode)
    if debounce is None:
        if debounce_max is not None:
            raise InvalidCall("debounce_max= bounds what debounce= puts off. Give debounce=, too.")
        is_plain = mode is OnConflict.KEEP and unique_for is None
        task.conflict = None if is_plain else Conflict(mode, task.unique_key)
        return
    check_debounced(task, mode)
    seconds, longest = read_seconds("debounce", debounce), None
    if debounce_max is not None:
        longest = read_seconds("debounce_max", debounce_max)
        if longest < seconds:
            raise InvalidCall(
                f"debounce_max={debounce_max!r} is shorter than debounce={debounce!r}. Give a longer one."
            )
    task.conflict, task.due_in = Conflict(mode, task.unique_key, seconds, longest), seconds


def checked_throttle(task: Task, unique_for: float | timedelta) -> float:
    """Return the seconds for which the key is taken; InvalidCall if the task may be pruned before."""
    seconds, kept = read_seconds("unique_for", unique_for), options(task.backend).keep_success
    if kept is not None and seconds > kept:
        raise InvalidCall(
            f"unique_for={unique_for!r}: successful tasks are pruned after {kept:g} seconds, and the key is free then. "
            "Give less, or raise KEEP_SUCCESS in OPTIONS."
        )
    return seconds


def checked_mode(on_conflict: Any, *, debounced: bool) -> OnConflict:
    """A debounced call that meets a running task runs once more by default, so that it is not lost."""
    if on_conflict is None:
        return OnConflict.RUN_AGAIN if debounced else OnConflict.KEEP
    if on_conflict == "again":
        raise InvalidCall("on_conflict='again' is called 'run_again' now.")
    if on_conflict not in MODES:
        raise InvalidCall(
            f"on_conflict={on_conflict!r}: give one of {', '.join(MODES)}.{suggestion(on_conflict, MODES)}"
        )
    return OnConflict(on_conflict)


def check_place(task: Task, mode: OnConflict) -> None:
    longest = MAX_LENGTHS["unique_key"] - len(SUFFIX)
    if len(task.unique_key or "") > longest:
        raise InvalidCall(
            f"unique_key={task.unique_key!r}: on_conflict={mode.value!r} needs room for a second key. "
            f"Give at most {longest} characters."
        )
    if task.interval and mode in {OnConflict.REPLACE, OnConflict.RUN_AGAIN}:
        raise InvalidCall(
            f"on_conflict={mode.value!r} and interval=: a repeating task enqueues its own next run, so there would be "
            "two series. Cancel the old one first, or leave on_conflict out."
        )


def check_debounced(task: Task, mode: OnConflict) -> None:
    if mode not in {OnConflict.KEEP, OnConflict.RUN_AGAIN}:
        raise InvalidCall(
            f"debounce= and on_conflict={mode.value!r}: a debounce puts the waiting task off and keeps its arguments. "
            "Pass ids, read what is newest in the task, and leave on_conflict out."
        )
    if task.eta is not None or task.due_in:
        raise InvalidCall("debounce= and eta= both say when it runs. Leave eta out.")
    if task.interval:
        raise InvalidCall("debounce= and interval=: a repeating task has its slots. Leave one of them out.")
    if has_end(task):
        raise InvalidCall(
            "debounce= and expires= or deadline=: calls that put it off would let it expire. Use debounce_max=."
        )


def read_seconds(name: str, value: Any) -> float:
    wrong = InvalidCall(f"{name}={value!r}: give seconds, more than zero and at most ten years, or a timedelta.")
    return checked_seconds(value, wrong, least=MORE_THAN_ZERO)


def holders_by_key(tasks: Sequence[Task], engine: Engine) -> dict[tuple[str, str | None], Task]:
    """The unfinished tasks that hold the unique keys of these."""
    return {key_of(holder): existing(holder) for holder in engine.holders(tasks)}


def existing(holder: Task) -> Task:
    holder.already_enqueued = True
    return holder


class Holders(NamedTuple):
    """The tasks that hold a key: the one that waits, and the one that runs."""

    waiting: Task | None
    running: Task | None


def resolve_conflict(task: Task, engine: Engine) -> Task:
    """Return the inserted task, or the unfinished one that does its work. Reads again if that one has moved on."""
    conflict: Conflict = task.conflict
    engine.lock_key(task.queue, conflict.key)
    while True:
        holders, mode = find_holders(task, engine), conflict.mode
        # Asked after the unfinished ones: one that has just ended is among either of them.
        if task.unique_for is not None and not any(holders) and (past := find_past_holder(task, engine)):
            holders, mode = Holders(None, past), OnConflict.RAISE if mode is OnConflict.RAISE else OnConflict.KEEP
        stored = RESOLVERS[mode](task, holders, engine)
        if stored is not None:
            return stored


def find_past_holder(task: Task, engine: Engine) -> Task | None:
    """Return the task that has succeeded and still holds the key. One that failed or was cancelled frees it."""
    past = Task.objects.using(engine.using).successful().filter(unique_until__gt=Now(), queue=task.queue)
    return past.filter(unique_key__in=places_of(task.conflict.key)).order_by("-pk").first()


def find_holders(task: Task, engine: Engine) -> Holders:
    places = [new_task(queue=task.queue, unique_key=key) for key in places_of(task.conflict.key)]
    holders = list(engine.holders(places, settles=True))
    waiting = (holder for holder in holders if holder.status == Status.PENDING)
    running = (holder for holder in holders if holder.status == Status.RUNNING)
    return Holders(next(waiting, None), next(running, None))


def keep(task: Task, holders: Holders, engine: Engine) -> Task | None:
    if holders.waiting:
        return debounce(holders.waiting, task.conflict, engine)
    return existing(holders.running) if holders.running else insert_one(task, engine)


def refuse(task: Task, holders: Holders, engine: Engine) -> Task | None:
    holder = holders.running or holders.waiting
    if holder is not None:
        raise AlreadyEnqueued(task.conflict.key, holder)
    return insert_one(task, engine)


def replace(task: Task, holders: Holders, engine: Engine) -> Task | None:
    """Cancel the task that waits: the newest call wins. It runs after the one that runs."""
    if holders.waiting and not cancel_waiting(holders.waiting, task, engine):
        return None
    return insert_after(task, holders.running, engine)


def run_again(task: Task, holders: Holders, engine: Engine) -> Task | None:
    """Run once more after the task that runs; if one waits, that one does."""
    if holders.waiting:
        return debounce(holders.waiting, task.conflict, engine)
    return insert_after(task, holders.running, engine)


RESOLVERS: dict[OnConflict, Callable[[Task, Holders, Engine], Task | None]] = {
    OnConflict.KEEP: keep,
    OnConflict.RAISE: refuse,
    OnConflict.REPLACE: replace,
    OnConflict.RUN_AGAIN: run_again,
}


def insert_one(task: Task, engine: Engine) -> Task | None:
    """Insert one task; None if the key was taken meanwhile, by a call that does not wait for others."""
    return next(iter(engine.insert([task])), None)


def insert_after(task: Task, running: Task | None, engine: Engine) -> Task | None:
    """Insert it to start no earlier than the running task has finished."""
    task.unique_key = task.conflict.key
    if running is not None:
        task.unique_key, task.follows_id = other_place(task.conflict.key, running.unique_key or ""), running.pk
    return insert_one(task, engine)


def cancel_waiting(waiting: Task, task: Task, engine: Engine) -> bool:
    """False if a worker was faster, and it runs."""
    ids = locked(Task.objects.using(engine.using).pending(), [waiting.pk], wait=True)
    return bool(ids and engine.cancel(ids, ACTOR, f"replaced by {task.id}", wait=True))


def debounce(waiting: Task, conflict: Conflict, engine: Engine) -> Task | None:
    """Put off the task that waits, unless it waits for its retry. None if it runs now."""
    if conflict.debounce is None or waiting.spent:
        return existing(waiting)
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
    return existing(waiting)
