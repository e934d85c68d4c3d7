"""The checker: a history in, violations out. It knows the contract and none of the code that keeps it.

I1 nothing lost or unheard of · I2 one legal life per task · I3 attempts are counted and reported by their holder ·
I4 leases of a task do not overlap · I5 success or failure only after the journal says so, no attempt runs twice ·
I6 the row is the sum of its events · I7 urgent tasks are picked up soon.
(I8, hygiene: vitals.py. I9 to I12, what one task may cost the others: bounds.py. I13, slots: schedules.py.
I14: workflows.py. I15, lanes: permits.py.)
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from uuid import UUID

from django_tasks_retry.verify.history import TaskHistory
from django_tasks_retry.verify.rules import FINAL, breaches_of
from tests.soak.bounds import check_bounds
from tests.soak.history import Event, History
from tests.soak.violation import Violation

CODES = {
    "moves": "I2", "one-outcome": "I2", "final": "I2", "attempts": "I3", "reports": "I3", "leases": "I4",
    "record": "I6", "results": "I6", "budget": "I6", "eta": "I6", "lineage": "I6",
    "expiry": "I6", "steps": "I6",
}  # fmt: skip
"""The product's own rules (`manage.py tasks verify`), by the numbers above."""

MILLISECOND = 0.001
OVERDUE_SECONDS, SOON_SECONDS = 5.0, 2.0
ENOUGH = 100  # to speak of 99 %
UNCALLED = {"LEASE_LOST", "CRASHED", "UNREADABLE", "BAD_ARGUMENTS"}
"""Codes of attempts that ended before the function was called."""


def check(history: History) -> list[Violation]:
    found = list(lost_or_unheard_of(history))
    for task in history.rows:
        events = history.events.get(task, [])
        life = TaskHistory(task, history.rows[task], events)
        found += [Violation(CODES[each.rule], task, each.text) for each in breaches_of(life, history.lease)]
        found += unwitnessed(history, task, events)
    found += [] if history.untimed else slow_pick_up(history)
    return found + list(check_bounds(history))


def lost_or_unheard_of(history: History) -> Iterator[Violation]:
    for task in history.acknowledged:
        if task not in history.rows:
            yield Violation("I1", task, "was acknowledged and is not there")
    asked = set(history.acknowledged.values()) | history.unsure
    for task, row in history.rows.items():
        if row.status not in FINAL:
            yield Violation("I1", task, f"never finished: {row.status}")
        if row.number not in asked:
            yield Violation("I1", task, "was never enqueued")
    firsts = Counter(row.number for row in history.rows.values() if row.retry_of is None)
    for task, row in history.rows.items():
        if row.retry_of is None and firsts[row.number] > 1:
            yield Violation("I1", task, f"call {row.number} was enqueued {firsts[row.number]} times")


def unwitnessed(history: History, task: UUID, events: list[Event]) -> Iterator[Violation]:
    lines = history.lines.get(task, [])
    starts = Counter(line.attempt for line in lines if line.word == "start")
    ends = {line.attempt: line.at + history.wall for line in lines if line.word == "end"}
    claims = {event.attempt: event.actor for event in events if event.kind == "running"}
    for attempt, times in starts.items():
        if times > 1:
            yield Violation("I5", task, f"attempt {attempt} was started {times} times")
    for line in lines:
        if claims.get(line.attempt) != line.worker:
            yield Violation("I5", task, f"attempt {line.attempt} ran in {line.worker}, which had not claimed it")
    for event in events:
        if event.kind == "completed" and ends.get(event.attempt, float("inf")) > event.at + MILLISECOND:
            yield Violation("I5", task, f"attempt {event.attempt} was completed before its end")
        if event.kind == "failed" and event.attempt not in starts and not may_be_uncalled(history, task, event):
            yield Violation("I5", task, f"attempt {event.attempt} failed and had never started")


def may_be_uncalled(history: History, task: UUID, event: Event) -> bool:
    """A hostile row may have a timeout that is over before its function says that it began."""
    code = event.data["error"]["code"]
    return code in UNCALLED or (code == "TIMEOUT" and task in history.hostile)


def pick_ups(history: History) -> list[tuple[float, UUID]]:
    """How long each canary waited that was not cancelled and met no outage of the database; the slowest last."""
    found = []
    for task, enqueued in history.canaries.items():
        claims = [event.at for event in history.events.get(task, []) if event.kind == "running"]
        if claims and history.in_order(enqueued, claims[0]):
            found.append((claims[0] - enqueued, task))
    return sorted(found)


def slow_pick_up(history: History) -> Iterator[Violation]:
    waits = pick_ups(history)
    for seconds, task in waits:
        if seconds > OVERDUE_SECONDS:
            yield Violation("I7", task, f"was due for {seconds:.1f} s before a worker took it")
    if len(waits) >= ENOUGH:
        seconds, task = waits[len(waits) * 99 // 100]
        if seconds > SOON_SECONDS:
            yield Violation("I7", task, f"99 % of urgent tasks were picked up within {seconds:.1f} s only")
