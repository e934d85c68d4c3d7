"""The checker's rules about what one task may cost the others, and how long a lease may be renewed.

I9 a hostile row ends as the contract says, an ordinary function does not fail · I10 without faults nobody pays with an
attempt but the task whose row was locked · I11 no lease is renewed without progress beyond the bounds of
docs/internals.rst · I12 no task is claimed and given back in a circle.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from uuid import UUID

from tests.soak.history import Event, History
from tests.soak.hostile import KINDS
from tests.soak.renewals import Sighting
from tests.soak.violation import Violation

STEADY = {"work", "canary", "fork", "block"}
"""Functions that do not fail, whatever runs beside them."""
START_SECONDS, RECORD_SECONDS = 10.0, 120.0
"""From the table of bounds: claimed and not started; ended and not recorded."""
LATE_SECONDS = 5.0
"""A renewal that was sent in time may reach the server this much later."""
MOST_RELEASES, WINDOW_SECONDS = 6, 60.0
"""So often a worker may give the same task back within a minute by its own choice."""
FORCED = (
    "its process was killed",
    "its process exited",
    "the claimer died",
    "the answer to the claim was lost",
    "the worker ",
    "the lease ran out",
    "The lease",
)
"""Beginnings of reasons for a release that only a fault brings about."""


WAITED = ("lease expired", "its process exited with code 70")
"""Causes of a loss where one alone can write at a time."""


def check_bounds(history: History) -> Iterator[Violation]:
    for task in history.rows:
        events = history.events.get(task, [])
        yield from wrong_end(history, task, events)
        yield from innocent_loss(history, task, events)
        yield from churn(task, events)
    for sighting in history.sightings:
        yield from renewed_without_progress(history, sighting)


def wrong_end(history: History, task: UUID, events: list[Event]) -> Iterator[Violation]:
    row, kind = history.rows[task], history.hostile.get(task)
    if kind is not None:
        end = row.code if row.status == "FAILED" else row.status
        if end not in KINDS[kind].ends | {"CANCELLED"}:
            yield Violation("I9", task, f"{kind}: ended with {end}")
    elif row.name in STEADY:
        for event in events:
            if event.kind == "failed" and event.data["error"]["code"] not in {"LEASE_LOST", "CRASHED"}:
                yield Violation("I9", task, f"{row.name} failed: {str(event.data['error'])[:200]}")


def innocent_loss(history: History, task: UUID, events: list[Event]) -> Iterator[Violation]:
    for event in events:
        if event.kind != "lease_lost" or task in history.locked:
            continue
        cause = event.data["cause"]
        is_calm = any(began <= event.at <= ended for began, ended in history.calm)
        has_waited = history.one_writer and cause in WAITED
        if is_calm and not has_waited and history.in_order(event.at - 2 * history.lease, event.at):
            yield Violation("I10", task, f"attempt {event.attempt} was lost: {cause}")


def renewed_without_progress(history: History, sighting: Sighting) -> Iterator[Violation]:
    lines = [line for line in history.lines.get(sighting.task, []) if line.attempt == sighting.attempt]
    marks = {line.word: line.at + history.wall for line in lines if line.at + history.wall <= sighting.renewed}
    if "end" in marks:
        what, since, bound = "ended and not recorded", marks["end"], RECORD_SECONDS
    elif "start" in marks:
        what, since, bound = "running", marks["start"], float(sighting.timeout) + history.timeout_grace
    else:
        what, since, bound = "claimed and not started", sighting.claimed, START_SECONDS
    if sighting.renewed > since + bound + LATE_SECONDS:
        seconds = sighting.renewed - since
        yield Violation(
            "I11", sighting.task, f"attempt {sighting.attempt} was renewed while {what} for {seconds:.1f} s"
        )


def churn(task: UUID, events: list[Event]) -> Iterator[Violation]:
    most = most_within_window(releases_by_choice(events))
    if most > MOST_RELEASES:
        yield Violation("I12", task, f"was given back {most} times within {WINDOW_SECONDS:g} s")


def releases_by_choice(events: list[Event]) -> list[float]:
    """When a worker gave the task back although nothing had happened to the worker."""
    given_back = [event for event in events if event.kind == "released"]
    return [event.at for event in given_back if not str(event.data.get("reason", "")).startswith(FORCED)]


def most_within_window(moments: Sequence[float]) -> int:
    return max((sum(at <= other < at + WINDOW_SECONDS for other in moments) for at in moments), default=0)
