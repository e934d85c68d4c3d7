"""Unique keys with a mode: what a call asks for, checked as a whole."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from ...conf import suggestion
from ...durations import as_seconds
from ...errors import InvalidCall
from ...models import MAX_LENGTHS, Task
from ...rules.backoff import MAX_DELAY
from ...rules.unique import SUFFIX, Conflict, OnConflict

MODES = tuple(mode.value for mode in OnConflict)


def set_conflict(
    task: Task,
    on_conflict: str | None = None,
    debounce: float | timedelta | None = None,
    debounce_max: float | timedelta | None = None,
) -> None:
    """Give the task its mode, and a debounced one its delay; InvalidCall where the options contradict each other."""
    given = "debounce" if on_conflict is None else "on_conflict"
    if not task.unique_key:
        raise InvalidCall(f"{given}= says what happens where a unique key is taken. Give unique_key=, too.")
    mode = checked_mode(on_conflict, debounced=debounce is not None)
    if mode is not OnConflict.KEEP or debounce is not None:
        check_place(task, mode)
    if debounce is None:
        if debounce_max is not None:
            raise InvalidCall("debounce_max= bounds what debounce= puts off. Give debounce=, too.")
        task.conflict = Conflict(mode, task.unique_key) if mode is not OnConflict.KEEP else None
        return
    check_debounced(task, mode)
    seconds, longest = checked_seconds("debounce", debounce), None
    if debounce_max is not None:
        longest = checked_seconds("debounce_max", debounce_max)
        if longest < seconds:
            raise InvalidCall(
                f"debounce_max={debounce_max!r} is shorter than debounce={debounce!r}. Give a longer one."
            )
    task.conflict, task.due_in = Conflict(mode, task.unique_key, seconds, longest), seconds


def checked_mode(on_conflict: Any, *, debounced: bool) -> OnConflict:
    """A debounced call that meets a running task is not lost: it runs once more, unless it is told otherwise."""
    if on_conflict is None:
        return OnConflict.AGAIN if debounced else OnConflict.KEEP
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
    if task.interval and mode in {OnConflict.REPLACE, OnConflict.AGAIN}:
        raise InvalidCall(
            f"on_conflict={mode.value!r} and interval=: a repeating task enqueues its own next run, so there would be "
            "two series. Cancel the old one first, or leave on_conflict out."
        )


def check_debounced(task: Task, mode: OnConflict) -> None:
    if mode not in {OnConflict.KEEP, OnConflict.AGAIN}:
        raise InvalidCall(
            f"debounce= and on_conflict={mode.value!r}: a debounce puts the waiting task off and keeps its arguments. "
            "Pass ids, read what is newest in the task, and leave on_conflict out."
        )
    if task.eta is not None or task.due_in:
        raise InvalidCall("debounce= and eta= both say when it runs. Leave eta out.")
    if task.interval:
        raise InvalidCall("debounce= and interval=: a repeating task has its slots. Leave one of them out.")
    if task.expires_at is not None or task.expires_in is not None:
        raise InvalidCall("debounce= and expires=: calls that put it off would let it expire. Use debounce_max=.")


def checked_seconds(name: str, value: Any) -> float:
    try:
        seconds = as_seconds(value)
    except (TypeError, ValueError):
        seconds = -1.0
    if not 0 < seconds <= MAX_DELAY:
        raise InvalidCall(f"{name}={value!r}: give seconds, more than zero and at most ten years, or a timedelta.")
    return seconds
