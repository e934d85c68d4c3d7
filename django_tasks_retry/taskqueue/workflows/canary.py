"""Canary retries: a few tasks are retried first, and the rest only if enough of them succeed.

The rest are PENDING and wait for `canary:OPERATION`. Any worker decides once all canaries have ended. The decision is a
signal of that name, and of signals the first one counts: a worker that dies after it leaves the rest to the others.
"""

from dataclasses import dataclass
from datetime import datetime, timedelta
from math import ceil
from typing import Any, NamedTuple
from uuid import UUID

from django.db.models import F
from django.db.models.fields.json import KeyTextTransform

from ...clock import now
from ...models import OperatorEvent, Task
from ...rules.backoff import MAX_DELAY
from ...rules.names import NIL, short_name
from ...rules.status import UNFINISHED, Status
from ..database import database
from ..engines import engine_for
from ..events import write_operator_event
from ..reading import read_rows
from .cancel import cancel
from .members import CANARY, as_batch
from .wake import ACTOR, make_due, received, signal

STARTED = "canary.started"
MOST = 1000  # tasks of one operation that one sweep moves
MOST_CANARIES = 100
OPERATIONS = 20  # operations that one sweep looks at
FAR = timedelta(seconds=MAX_DELAY)
LAST = UUID(int=2**128 - 1)


class Canary(NamedTuple):
    """An operation whose first tasks are canaries: `left` of them are still to come."""

    operation: UUID
    left: int
    continue_if: float  # the share of the canaries that must succeed
    since: datetime  # the instant from which the rest is spread: it counts from the decision instead

    def after(self, done: int) -> "Canary":
        return self._replace(left=max(0, self.left - done))

    def held(self, eta: datetime) -> dict[str, Any]:
        """Return the columns of a task that waits for the canaries."""
        return {"eta": eta + FAR, "waits_for": f"{CANARY}{self.operation}"}

    def write(self, canaries: list[Task], actor: str, reason: str, using: str) -> None:
        """Write which tasks are canaries, in the transaction that enqueues them."""
        data: dict[str, Any] = {"canaries": [str(task.pk) for task in canaries]}
        data |= {"continue_if": self.continue_if, "since": self.since.isoformat()}
        write_operator_event(STARTED, str(self.operation), actor, reason, using, data)


class Standing(NamedTuple):
    """How the canaries of an operation stand."""

    total: int
    open: int
    succeeded: int
    needed: int
    shift: timedelta  # what the etas of the rest are too late by
    error: str  # the error of one that failed

    @property
    def sentence(self) -> str:
        failed = f": {self.error}" if self.error and self.succeeded < self.needed else ""
        return f"{self.succeeded} of {self.total} canaries succeeded, {self.needed} were needed{failed}"


def canary_standing(key: str, using: str) -> Standing | None:
    """Read how the canaries stand that tasks with this key wait for. None if nothing readable names them."""
    stored = OperatorEvent.objects.using(using).filter(subject=key.removeprefix(CANARY), kind=STARTED).order_by("id")
    data: list[Any] = [event.data for event in read_rows(stored)]
    try:
        ids = [pk for each in data for pk in map(as_batch, each["canaries"]) if pk]
        needed = ceil(data[0]["continue_if"] * len(ids))
        shift = datetime.fromisoformat(data[0]["since"]) + FAR - now(using)
    except (LookupError, OverflowError, TypeError, ValueError):
        return None
    found = Task.objects.using(using).filter(pk__in=ids)
    ends = list(found.values_list("status", KeyTextTransform("exception", "last_error")))
    open_ = sum(status in UNFINISHED for status, _ in ends)
    succeeded = sum(status == Status.SUCCESS for status, _ in ends)
    error = next((short_name(error) for status, error in ends if error and status == Status.FAILED), "")
    return Standing(len(ids), open_, succeeded, needed, shift, error[:80])


def decide(key: str, backend: str) -> list[UUID]:
    """Make the tasks due that wait for these canaries, or cancel them. Return them; none while canaries are open."""
    using = database(backend)
    standing = canary_standing(key, using)
    if standing is None:
        return []
    if received(key, using) is None:
        if standing.open:
            return []
        signal(key, standing.succeeded >= standing.needed, by=ACTOR, backend=backend)
    decision = received(key, using)
    if decision is None:  # deleted since
        return []
    ids = [each.id for each in engine_for(using).waiting_for([key], MOST)]
    reason = standing.sentence if decision.actor == ACTOR else f"{decision.actor} decided about the canaries"
    if decision.payload is not True:
        return cancel(ids, by=decision.actor, reason=reason, backend=backend).done
    return make_due(ids, [key], using, F("eta") - standing.shift, reason)


@dataclass(slots=True)
class CanarySweep:
    """Decides about operations with waiting tasks, some in each call."""

    backend: str = "default"
    after: tuple[str, UUID] = (CANARY, NIL)

    def __call__(self) -> list[UUID]:
        moved: list[UUID] = []
        for _ in range(OPERATIONS):
            # By a row each: one operation may have a million.
            found = engine_for(database(self.backend)).waiting_tasks(self.after, 1)
            if not found or not found[0].waits_for.startswith(CANARY):
                self.after = CANARY, NIL
                break
            self.after = found[0].waits_for, LAST
            moved += decide(found[0].waits_for, self.backend)
        return moved
