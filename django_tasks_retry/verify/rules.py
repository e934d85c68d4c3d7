"""The rules: one life in, breaches out. They know the contract and none of the code that keeps it.

The table of moves stands here a second time, on purpose: rules made from the code's table would share its mistakes.
"""

from collections.abc import Callable, Iterator
from datetime import datetime

from .history import OPEN, Breach, Event, StepRow, TaskHistory, is_final

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
OUTCOMES = {"completed", "failed for good", "cancelled"}
REPORTS = ("completed", "failed", "released")
ARRIVAL_SECONDS = 0.05
"""A statement is dated by its arrival: it may have waited this long for the one whose outcome it then saw."""


def kind_of(event: Event) -> str:
    return "failed for good" if event.kind == "failed" and is_final(event) else event.kind


def illegal_moves(life: TaskHistory) -> Iterator[Breach]:
    status = "PENDING"
    for event in life.events:
        kind = kind_of(event)
        after = MOVES.get((status, kind))
        if after is None:
            yield Breach(rule_of(status, kind), life.task, f"{kind!r} of attempt {event.attempt} while {status}")
            return
        status = after


def rule_of(status: str, kind: str) -> str:
    """Return the promise that a move outside the table breaks."""
    if status not in FINAL:
        return "leases" if (status, kind) == ("RUNNING", "running") else "moves"
    return "one-outcome" if kind in OUTCOMES else "final"


def wrong_attempts(life: TaskHistory) -> Iterator[Breach]:
    claims = [event.attempt for event in life.events if event.kind == "running"]
    if claims != list(range(1, life.row.attempts + 1)):
        yield Breach("attempts", life.task, f"attempts claimed: {shown(claims)}, counted: {life.row.attempts}")


def shown(claims: list[int]) -> str:
    return str(claims) if len(claims) <= 12 else f"{len(claims)} of them, {claims[:5]} … {claims[-5:]}"


def foreign_reports(life: TaskHistory) -> Iterator[Breach]:
    holder, lost = "", False
    for event in life.events:
        if event.kind == "running":
            holder, lost = event.actor, False
        lost = lost or event.kind == "lease_lost"
        if event.kind in REPORTS and not lost and not speaks_for(event.actor, holder):
            yield Breach("reports", life.task, f"{event.kind} by {event.actor}, claimed by {holder}")


def speaks_for(actor: str, holder: str) -> bool:
    """A supervisor speaks for the workers whose names begin with its own."""
    return actor == holder or holder.startswith(f"{actor}/")


def stolen_leases(life: TaskHistory, lease: float) -> Iterator[Breach]:
    """A claim during another attempt is no legal move; here is who ended an attempt too early.

    Times do not tell whether two attempts overlap: a claim is dated by its arrival, and a server that stood still runs
    it after an end that arrived later. The order of events does, for each takes its number under the lock of its task.
    """
    claimed, holder = 0.0, ""
    for event in life.events:
        if event.kind == "running":
            claimed, holder = event.at, event.actor
        taken = event.kind == "lease_lost" and not speaks_for(event.actor, holder)
        if taken and event.at < claimed + lease:
            yield Breach("leases", life.task, f"attempt {event.attempt} was taken from {holder} while its lease held")


def wrong_row(life: TaskHistory) -> Iterator[Breach]:
    row, status = life.row, status_by_events(life.events)
    if row.status != status:
        yield Breach("record", life.task, f"is {row.status}, by its events {status}")
    if row.refunds != sum(event.kind == "released" for event in life.events):
        yield Breach("record", life.task, f"{row.refunds} refunds do not match its releases")
    if (row.holder is not None) != (row.status == "RUNNING"):
        yield Breach("record", life.task, f"is {row.status} and leased to {row.holder}")


def status_by_events(events: list[Event]) -> str:
    status = "PENDING"
    for event in events:
        status = MOVES.get((status, kind_of(event)), status)
    return "PENDING" if status == "lost" else status


def wrong_result(life: TaskHistory) -> Iterator[Breach]:
    if life.row.outcome != (life.row.status if life.row.status in FINAL else None):
        text = f"with the result {life.row.outcome}" if life.row.outcome else "without a result"
        yield Breach("results", life.task, f"is {life.row.status} {text}")


def spent_claims(life: TaskHistory) -> Iterator[tuple[Event, int]]:
    """Yield the claims, each with how many attempts were spent before. A refund comes after the attempt it refunds."""
    spent = 0
    for event in life.events:
        if event.kind == "running":
            yield event, spent
        spent += (event.kind == "running") - (event.kind == "released")


def over_budget(life: TaskHistory) -> Iterator[Breach]:
    for claim, spent in spent_claims(life):
        if life.row.deadline_at is not None and claim.at >= life.row.deadline_at:
            yield Breach("deadline", life.task, f"attempt {claim.attempt} began after the deadline")
        if spent >= life.row.max_attempts:
            yield Breach("budget", life.task, f"attempt {claim.attempt} exceeds the budget of {life.row.max_attempts}")
            return


def too_early(life: TaskHistory) -> Iterator[Breach]:
    # The first eta is in the row until an event sets another. From then on, only the time of enqueueing is known.
    is_first = life.first("requeued", "rescheduled", "released") is None
    due = life.row.eta if is_first else life.row.created_at - ARRIVAL_SECONDS
    for event in life.events:
        if event.kind in {"requeued", "rescheduled", "released"}:
            due = instant(event.data.get("eta"))
        if event.kind == "running" and event.at < due:
            yield Breach("eta", life.task, f"attempt {event.attempt} began {due - event.at:.3f} s before it was due")


def instant(text: object) -> float:
    try:
        return datetime.fromisoformat(str(text)).timestamp()
    except (ValueError, OverflowError):
        return 0.0


def unexplained_retry(life: TaskHistory) -> Iterator[Breach]:
    explained = [n for n, event in enumerate(life.events) if event.kind == "retried"]
    if explained != ([0] if life.row.retry_of else []):
        wrong = "is a retry without the event that says so", "has the event of a retry, and is none"
        yield Breach("lineage", life.task, wrong[0] if life.row.retry_of else wrong[1])


def expired_starts(life: TaskHistory) -> Iterator[Breach]:
    """A task expires until an attempt of it is spent; a refunded attempt is not."""
    expires_at = life.row.expires_at
    for claim, spent in spent_claims(life):
        if expires_at is not None and claim.at >= expires_at and not spent:
            yield Breach("expiry", life.task, f"attempt {claim.attempt} began after the task had expired")


def steps_without_lease(life: TaskHistory, lease: float) -> Iterator[Breach]:
    leases = dict(leases_of(life.events)) if life.steps else {}
    for step in life.steps:
        if not is_held(step, leases, lease):
            text = f"step {step.name!r} by {step.actor} of attempt {step.attempt} was not recorded under its lease"
            yield Breach("steps", life.task, text)


def unfounded_effects(life: TaskHistory) -> Iterator[Breach]:
    """An effect is intended before it is done, once, and again only for a reason."""
    intents: dict[str, int] = {}
    for step in life.steps:
        name = step.name.rpartition(":intent-")[0] if step.kind == "intent" else step.name
        if step.kind == "intent":
            intents[name] = intents.get(name, 0) + 1
            if not step.because and intents[name] > 1:
                yield Breach("effects", life.task, f"effect {name!r} was intended again without a reason")
        elif step.kind == "effect" and not intents.get(name):
            yield Breach("effects", life.task, f"effect {name!r} has an outcome and no intent")


def leases_of(events: list[Event]) -> Iterator[tuple[int, tuple[str, float, float]]]:
    """Attempt → holder, claim, and the event that ended it."""
    for n, event in enumerate(events):
        if event.kind == "running":
            ends = (each for each in events[n + 1 :] if each.attempt == event.attempt)
            end = next(ends, None)
            # A cancellation is dated by its arrival, and may have waited for the transaction of a step for long.
            yield event.attempt, (event.actor, event.at, OPEN if end is None or end.kind == "cancelled" else end.at)


def is_held(step: StepRow, leases: dict[int, tuple[str, float, float]], lease: float) -> bool:
    """Steps of attempt 0 were given before the first claim. Reports may wait a lease for the commit of a step."""
    if step.attempt == 0:
        return not leases or step.at <= leases[min(leases)][1] + ARRIVAL_SECONDS
    holder, claimed, ended = leases.get(step.attempt, ("", OPEN, OPEN))
    return step.actor == holder and claimed - ARRIVAL_SECONDS <= step.at <= ended + lease


RULES: dict[str, str] = {
    "moves": "Only legal moves, in the order of the contract.",
    "one-outcome": "A task ends once.",
    "final": "Nothing happens to a task after its end.",
    "attempts": "Every attempt is one claim, numbered from 1, and counted.",
    "reports": "Only the holder of a lease, or its supervisor, reports how the attempt ended.",
    "leases": "Leases of one task do not overlap, and none is taken away while it holds.",
    "budget": "No task spends more attempts than its budget.",
    "eta": "No attempt begins before the task is due.",
    "results": "A finished task has exactly one result, of the same status; an unfinished one has none.",
    "record": "The row is the sum of its events: status, refunds, lease.",
    "lineage": "Every retry says whose it is.",
    "limits": "No more tasks of a lane, queue or function run at once than its limit says.",
    "rates": "No more tasks of a lane, queue or function start in any window than its limit says.",
    "order": "In a lane of strict order a task begins when the one before it has ended.",
    "unique": "In a queue, one task of a unique key is unfinished at a time.",
    "throttle": "A unique key that is taken for a time is not given again in it, once its task has succeeded.",
    "expiry": "No task begins after it has expired.",
    "deadline": "No attempt begins after the deadline of its task.",
    "follows": "A task that follows another begins after that one has ended.",
    "steps": "Steps are recorded under the live lease of their attempt, or before the first claim.",
    "effects": "An effect is intended before it is done, and again only for a reason.",
    "gather": "A task that gathers others completes after they have ended; a callback starts after its batch.",
    "batches": "A batch has as many members as its steps count.",
    "slots": "One slot of a schedule is one task.",
    "rhythm": "Every task of a schedule stands on a slot of its timing.",
    "missed-slots": "Every slot of a schedule has its task, or an event that says why not.",
    "orphans": "No result and no event is left of a task that is gone.",
}
"""Each promise, in words."""

OF_ONE_TASK: tuple[Callable[[TaskHistory], Iterator[Breach]], ...] = (
    illegal_moves, wrong_attempts, foreign_reports, wrong_row, wrong_result, over_budget, too_early, unexplained_retry,
    expired_starts, unfounded_effects,
)  # fmt: skip


def breaches_of(life: TaskHistory, lease: float) -> list[Breach]:
    """Return the promises that this life does not keep. A claim that is not renewed holds for `lease` seconds."""
    found = [breach for rule in OF_ONE_TASK for breach in rule(life)]
    return [*found, *stolen_leases(life, lease), *steps_without_lease(life, lease)]
