"""How soon what a killed process was running was given back: by its supervisor, or by others when its lease ended."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING
from uuid import UUID

from tests.soak.checker import ENOUGH

if TYPE_CHECKING:
    from tests.soak.fire import Outcome

CHILD, SUPERVISOR = 1, -1  # the sign under which the nemesis remembers whom it killed
CHILD_SECONDS, TAKE_OVER_SECONDS = 1.0, 2.0


@dataclass(frozen=True, slots=True)
class Wait:
    """Seconds since a kill. Calm: neither the database nor the supervisor in charge was away, nobody locked the row."""

    given_back: float
    claimed: float
    calm: bool


def waits_after_kills(outcome: Outcome, whose: int) -> list[Wait]:
    return [wait for task in outcome.history.lines for wait in waits(outcome, task, whose)]


def waits(outcome: Outcome, task: UUID, whose: int) -> Iterator[Wait]:
    history = outcome.history
    events = history.events.get(task, [])
    lost = {event.attempt: event.at for event in events if event.kind == "lease_lost"}
    claimed = {event.attempt: event.at for event in events if event.kind == "running"}
    for line in history.lines[task]:
        # A kill before the start was of another process, whose number was given away again.
        killed = outcome.nemesis.killed.get(whose * line.pid, 0.0)
        if line.word == "end" or killed < line.at or line.attempt + 1 not in claimed:
            continue
        since = killed + history.wall
        if lost.get(line.attempt, 0.0) > since:
            given_back, again = lost[line.attempt] - since, claimed[line.attempt + 1] - since
            calm = is_calm(outcome, line.worker if whose == CHILD else "", killed, killed + given_back)
            yield Wait(given_back, again, calm and task not in history.locked)


def is_calm(outcome: Outcome, worker: str, began: float, ended: float) -> bool:
    concerned = {"", worker.partition("-")[0]}
    return not any(one.who in concerned and began < one.ended and one.began < ended for one in outcome.nemesis.outages)


def slow_recovery(outcome: Outcome) -> list[str]:
    calm = {whose: [w.given_back for w in waits_after_kills(outcome, whose) if w.calm] for whose in (CHILD, SUPERVISOR)}
    return too_slow(calm[CHILD], calm[SUPERVISOR], outcome.history.lease)


def too_slow(after_child: Sequence[float], after_supervisor: Sequence[float], lease: float) -> list[str]:
    """99 % within a second of a child's end; all within two seconds of the end of the lease where nobody is left."""
    complaints, slowest = [], max(after_supervisor, default=0.0)
    if len(after_child) >= ENOUGH:
        seconds = sorted(after_child)[len(after_child) * 99 // 100]
        complaints += [f"I7 99 % were given back within {seconds:.2f} s only"] if seconds > CHILD_SECONDS else []
    if slowest > lease + TAKE_OVER_SECONDS:
        complaints.append(f"I7 {slowest:.2f} s until the task of a lost worker was taken over")
    return complaints
