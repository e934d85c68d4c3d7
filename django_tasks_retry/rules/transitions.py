"""The legal moves of a task. All others are forbidden.

The database guard and the documentation are made from this one table. The service layer takes the events of each move
from it; if a move is made in SQL, a test compares what was written with the table.
"""

from dataclasses import dataclass
from enum import Enum, StrEnum

from .status import Status


class EventKind(StrEnum):
    RUNNING = "task.running"
    COMPLETED = "task.completed"
    FAILED = "task.failed"
    REQUEUED = "task.requeued"
    LEASE_LOST = "task.lease_lost"
    RELEASED = "task.released"
    CANCELLED = "task.cancelled"
    RESCHEDULED = "task.rescheduled"
    RETRIED = "task.retried"


class Who(Enum):
    """The parties that may make a move."""

    ANYONE = "anyone"
    CLAIMER = "a worker that states the lease it takes"
    KEEPER = "the lease holder or its supervisor, to renew"
    HOLDER = "the lease holder or its supervisor, to report the outcome"
    FINDER = "anyone once the lease has expired, or the supervisor of the dead worker"


@dataclass(frozen=True, slots=True)
class Move:
    name: str
    source: Status | None
    target: Status
    who: Who
    events: tuple[EventKind, ...] = ()
    attempts: int = 0
    refunds: int = 0
    budget: bool | None = None
    note: str = ""
    writes: tuple[str, ...] = ()  # the columns of HISTORY that it may change

    def __str__(self) -> str:
        return f"{self.name}: {self.source or '—'} → {self.target}"


KEPT = "+"
"""Stands behind the name in `moved_by` when a lease begins or goes on: what keeps a lease cannot end it.

Once or twice in turn, so that every renewal changes `moved_by`, and an UPDATE that leaves it alone is none.
"""

HISTORY = ("started_at", "last_attempt_at", "last_error", "fingerprint", "progress", "crashes")
"""Columns about the attempts so far. A move changes those that it is about, and leaves the rest."""

POISON_AFTER = 2  # consecutive attempts that died with their process after which a task runs alone in one
WAIT = "waits_for"
"""The event that wakes a pending task before its time. The release sets it; other moves may only clear it."""

ATTEMPT, FAILURE = ("started_at", "last_attempt_at"), ("last_error", "fingerprint")

P, R, S, F, C = Status.PENDING, Status.RUNNING, Status.SUCCESS, Status.FAILED, Status.CANCELLED

ENQUEUE = Move("enqueue", None, P, Who.ANYONE, note="no attempt spent, no lease")
CLAIM = Move("claim", P, R, Who.CLAIMER, (EventKind.RUNNING,), attempts=1, note="only when due", writes=ATTEMPT)
CANCEL_PENDING = Move("cancel", P, C, Who.ANYONE, (EventKind.CANCELLED,), note="result row written")
RESCHEDULE = Move("reschedule", P, P, Who.ANYONE, (EventKind.RESCHEDULED,), note="new eta, queue or priority")
RENEW = Move("renew", R, R, Who.KEEPER, note="moves the expiry only", writes=("progress",))
COMPLETE = Move("complete", R, S, Who.HOLDER, (EventKind.COMPLETED,), note="result row written")
REQUEUE = Move(
    "fail, budget left", R, P, Who.HOLDER, (EventKind.FAILED, EventKind.REQUEUED), budget=True,
    note="new eta by the backoff policy", writes=(*FAILURE, "crashes"),
)  # fmt: skip
GIVE_UP = Move(
    "fail, budget spent or error not retryable", R, F, Who.HOLDER, (EventKind.FAILED,), note="result row written",
    writes=FAILURE,
)  # fmt: skip
LOSE = Move(
    "lease lost, budget left", R, P, Who.FINDER, (EventKind.LEASE_LOST,), budget=True,
    note="keeps its eta; the attempt stays spent", writes=("crashes",),
)  # fmt: skip
LOSE_FOR_GOOD = Move(
    "lease lost, budget spent", R, F, Who.FINDER, (EventKind.LEASE_LOST, EventKind.FAILED), budget=False,
    note="result row written, code LEASE_LOST", writes=FAILURE,
)  # fmt: skip
RELEASE = Move(
    "release", R, P, Who.HOLDER, (EventKind.RELEASED,), refunds=1, note="the attempt is refunded",
    writes=(WAIT, "crashes"),
)  # fmt: skip
CANCEL_RUNNING = Move("cancel", R, C, Who.ANYONE, (EventKind.CANCELLED,), note="the lease is revoked")

MOVES = (
    ENQUEUE, CLAIM, CANCEL_PENDING, RESCHEDULE, RENEW, COMPLETE, REQUEUE, GIVE_UP, LOSE, LOSE_FOR_GOOD, RELEASE,
    CANCEL_RUNNING,
)  # fmt: skip

LEGAL_PAIRS = frozenset((move.source, move.target) for move in MOVES if move.source)
