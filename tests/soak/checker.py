"""The checker: a history in, violations out. It knows the contract and none of the code that keeps it.

I1 nothing lost or unheard of · I2 one legal life per task · I3 attempts are counted and reported by their holder ·
I4 leases of a task do not overlap · I5 success or failure only after the journal says so, no attempt runs twice ·
I6 the row is the sum of its events · I7 urgent tasks are picked up soon.
(I8, hygiene: vitals.py. I9 to I12, what one task may cost the others: bounds.py. I13, slots: schedules.py.)
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from datetime import datetime
from uuid import UUID

from tests.soak.bounds import check_bounds
from tests.soak.history import Event, History
from tests.soak.violation import Violation

FINAL = {"SUCCESS", "FAILED", "CANCELLED"}
MOVES = {
    ("PENDING", "retried"): "PENDING",
    ("PENDING", "rescheduled"): "PENDING",
    ("PENDING", "running"): "RUNNING",
    ("PENDING", "cancelled"): "CANCELLED",
    ("RUNNING", "cancelled"): "CANCELLED",
    ("RUNNING", "completed"): "SUCCESS",
    ("RUNNING", "failed for good"): "FAILED",
    ("RUNNING", "failed"): "requeuing",
    ("requeuing", "requeued"): "PENDING",
    ("RUNNING", "released"): "PENDING",
    ("RUNNING", "lease_lost"): "lost",
    ("lost", "failed for good"): "FAILED",
    ("lost", "running"): "RUNNING",
    ("lost", "cancelled"): "CANCELLED",
    ("lost", "rescheduled"): "PENDING",
}
REPORTS = ("completed", "failed", "released")
MILLISECOND = 0.001
ARRIVAL_SECONDS = 0.05
"""A statement bears the time of its arrival: it may have waited this much for the one whose outcome it then saw."""
OVERDUE_SECONDS, SOON_SECONDS = 5.0, 2.0
ENOUGH = 100  # to speak of 99 %
UNCALLED = {"LEASE_LOST", "UNREADABLE", "BAD_ARGUMENTS"}
"""Codes of attempts that ended before the function was called."""


def check(history: History) -> list[Violation]:
    found = list(lost_or_unheard_of(history))
    for task in history.rows:
        events = history.events.get(task, [])
        found += illegal_life(task, events)
        found += wrong_attempts(history, task, events)
        found += overlapping_leases(history, task, events)
        found += unwitnessed(history, task, events)
        found += wrong_row(history, task, events)
    return found + list(slow_pick_up(history)) + list(check_bounds(history))


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


def kind_of(event: Event) -> str:
    return "failed for good" if event.kind == "failed" and event.data.get("terminal") else event.kind


def illegal_life(task: UUID, events: list[Event]) -> Iterator[Violation]:
    status = "PENDING"
    for event in events:
        after = MOVES.get((status, kind_of(event)))
        if after is None:
            yield Violation("I2", task, f"{kind_of(event)!r} of attempt {event.attempt} while {status}")
            return
        status = after


def wrong_attempts(history: History, task: UUID, events: list[Event]) -> Iterator[Violation]:
    claims = [event.attempt for event in events if event.kind == "running"]
    if claims != list(range(1, history.rows[task].attempts + 1)):
        yield Violation("I3", task, f"attempts claimed: {claims}, counted: {history.rows[task].attempts}")
    holder, lost = "", False
    for event in events:
        if event.kind == "running":
            holder, lost = event.actor, False
        lost = lost or event.kind == "lease_lost"
        if event.kind in REPORTS and not lost and not speaks_for(event.actor, holder):
            yield Violation("I3", task, f"{event.kind} by {event.actor}, claimed by {holder}")


def speaks_for(actor: str, holder: str) -> bool:
    return actor == holder or holder.startswith(f"{actor}/")


def overlapping_leases(history: History, task: UUID, events: list[Event]) -> Iterator[Violation]:
    claimed, holder, latest = 0.0, "", 0.0
    for event in events:
        if event.kind == "running":
            if event.at < latest - ARRIVAL_SECONDS:
                yield Violation("I4", task, f"attempt {event.attempt} was claimed before the one before it ended")
            claimed, holder = event.at, event.actor
        taken = event.kind == "lease_lost" and not speaks_for(event.actor, holder)
        if taken and event.at < claimed + history.lease:
            yield Violation("I4", task, f"attempt {event.attempt} was taken from {holder} while its lease held")
        latest = max(latest, event.at)


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
        if event.kind == "failed" and event.data["error"]["code"] not in UNCALLED and event.attempt not in starts:
            yield Violation("I5", task, f"attempt {event.attempt} failed and had never started")


def wrong_row(history: History, task: UUID, events: list[Event]) -> Iterator[Violation]:
    row, status = history.rows[task], "PENDING"
    for event in events:
        status = MOVES.get((status, kind_of(event)), status)
    if row.status != ("PENDING" if status == "lost" else status):
        yield Violation("I6", task, f"is {row.status}, by its events {status}")
    if row.outcome != (row.status if row.status in FINAL else None):
        yield Violation("I6", task, f"is {row.status} with the result {row.outcome}")
    if row.refunds != sum(event.kind == "released" for event in events):
        yield Violation("I6", task, f"{row.refunds} refunds do not match its releases")
    due = 0.0
    for event in events:
        if event.kind == "requeued":
            due = datetime.fromisoformat(event.data["eta"]).timestamp()
        if event.kind == "running" and event.at < due:
            yield Violation("I6", task, f"attempt {event.attempt} began before its eta")


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
