"""Queues: how they stand; pause and resume queues, lanes, functions and schedules."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, fields
from datetime import timedelta
from typing import Any

from django.db.models import Sum

from .. import taskqueue
from ..display.actors import describe_pauses
from ..display.formatting import format_capped, format_decimal, format_duration, format_percentage, one_line
from ..display.scope import Scope, queue_names
from ..models import Queue, Schedule, TaskStat, Worker
from ..rules.redact import redact_text
from ..taskqueue import alive_workers, sound_workers
from ..taskqueue.control.decisions import KINDS, SCHEDULE, Pausable
from ..taskqueue.enqueue.backlog import full_queues
from ..taskqueue.statistics import snapshot
from ..taskqueue.statistics.summaries import QueueFigures
from .subcommand import REASON, WHY_IT_WAITS, CliError, Context, Exit, command, option

HEADINGS = ("QUEUE", "STATE", "READY", "OLDEST", "RUNNING", "WORKERS", "PER MINUTE", "FAILING")
RECENT = timedelta(minutes=10)
MAX_WORKERS = 1000
COUNTS = ("completed", "retried", "failed")
SUBJECT = (
    option("queue", nargs="?", metavar="QUEUE"),
    option("--lane", metavar="LANE", help="a lane instead of a queue"),
    option("--function", metavar="PATH", help="a function instead of a queue"),
    option("--schedule", metavar="NAME", help="a schedule instead of a queue"),
)


@dataclass(frozen=True, slots=True)
class QueueRates(QueueFigures):
    """The figures of a queue, and its attempts in the last ten minutes."""

    attempts: int = 0
    failures: int = 0

    @property
    def per_minute(self) -> float:
        return self.attempts / (RECENT.total_seconds() / 60)

    @property
    def failing(self) -> float | None:
        """The share of attempts that failed; None if there were none."""
        return self.failures / self.attempts if self.attempts else None


def read_workers(scope: Scope) -> list[Worker]:
    return sound_workers(alive_workers(scope.backend).order_by("id")[:MAX_WORKERS])


def read_queues(scope: Scope, workers: Sequence[Worker]) -> list[QueueRates]:
    recent = {row["queue"]: Counter(row) for row in attempts_by(scope, RECENT, "queue")}
    found = []
    for figures in snapshot.read_queues(scope.backend, scope.using, workers, set(queue_names(recent))):
        counts = recent.get(figures.name, Counter[str]())
        attempts, failures = sum(counts[each] for each in COUNTS), counts["retried"] + counts["failed"]
        standing = {each.name: getattr(figures, each.name) for each in fields(figures)}
        found.append(QueueRates(**standing, attempts=attempts, failures=failures))
    return found


def attempts_by(scope: Scope, span: timedelta, *keys: str) -> Iterable[dict[str, Any]]:
    """Attempts that ended within the span, from the workers' statistics."""
    stats = TaskStat.objects.using(scope.using).filter(minute__gte=scope.now - span)
    sums = {name: Sum(name) for name in (*COUNTS, "seconds")}
    found: Iterable[dict[str, Any]] = stats.order_by(*keys).values(*keys).annotate(**sums)
    return found


@command("queues", "Queues: how many tasks are ready, how long they wait, who serves them.")
def queues(context: Context) -> None:
    scope, output = context.scope, context.output
    found = read_queues(scope, read_workers(scope))
    output.listing(found, queue_record, HEADINGS, queue_row)
    if output.as_json:
        return
    full = full_queues([queue.name for queue in found], scope.backend, scope.using)
    for name, max_pending in full.items():
        output.say(f"{one_line(name, 64)} is full: {max_pending} tasks wait, and more calls raise QueueFull")
    say_paused(context, [queue.pause for queue in found if queue.pause])


def say_paused(context: Context, rows: Iterable[Pausable]) -> None:
    for name, pause in describe_pauses(rows).items():
        context.output.say(f"{one_line(name, 100)} was paused by {pause.by}: {pause.reason or 'no reason given'}")


def queue_record(queue: QueueRates) -> dict[str, Any]:
    pause = queue.pause or Queue()
    return {
        "name": queue.name,
        "due": queue.due,
        "oldest_seconds": queue.oldest_seconds,
        "running": queue.running,
        "is_paused": queue.is_paused,
        "workers": queue.workers,
        "slots": queue.slots,
        "paused_at": pause.paused_at,
        "paused_by": pause.paused_by,
        "reason": redact_text(pause.reason),
        "attempts": queue.attempts,
        "failures": queue.failures,
        "per_minute": queue.per_minute,
        "failing": queue.failing,
    }


def queue_row(queue: QueueRates) -> tuple[str, ...]:
    return (
        one_line(queue.name, 64),
        "PAUSED" if queue.is_paused else "served" if queue.workers else "NO WORKER",
        format_capped(queue.due),
        format_duration(queue.oldest_seconds) if queue.due else "",
        str(queue.running),
        str(queue.workers),
        format_decimal(queue.per_minute),
        format_percentage(queue.failures, queue.attempts),
    )


@command(
    "pause", "Let nothing of a queue, lane, function or schedule start, until it is resumed.", *SUBJECT, WHY_IT_WAITS
)
def pause(context: Context) -> None:
    switch(context, taskqueue.pause, *subject_of(context))


@command("resume", "Let a paused queue, lane, function or schedule start tasks again.", *SUBJECT, REASON)
def resume(context: Context) -> None:
    switch(context, taskqueue.resume, *subject_of(context))


def switch(context: Context, verb: Callable[..., bool], kind: str, name: str) -> None:
    """Pause or resume, and say so."""
    subject, action = f"{kind.capitalize()} {one_line(name, 128)}", verb.__name__
    if not verb(name, kind=kind, **context.decision):
        before = "was paused before" if action == "pause" else "was not paused"
        raise CliError(f"{subject} {before}.", Exit.REFUSED)
    goes_on = " Running tasks go on." if action == "pause" and kind != SCHEDULE else ""
    text = f"{subject} is {'paused' if action == 'pause' else 'resumed'}.{goes_on}"
    context.output.answer({"action": action, kind: name, "done": 1}, text)


def subject_of(context: Context) -> tuple[str, str]:
    """Return the kind and the name of the one subject that was given."""
    given = [(kind, context[kind]) for kind in KINDS if context[kind]]
    if len(given) != 1:
        raise CliError("Name one of these: QUEUE, --lane LANE, --function PATH or --schedule NAME.")
    kind, name = given[0]
    if kind == SCHEDULE and not Schedule.objects.using(context.using).filter(pk=name, backend=context.backend).exists():
        raise CliError(f"There is no schedule {one_line(name, 128)}.", Exit.NOT_FOUND)
    return kind, name
