"""Which metrics there are, made from a snapshot."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from ..taskqueue.operator.histogram import BOUNDS
from ..taskqueue.operator.snapshot import Holder, QueueState, Snapshot, Total
from .exposition import Family, Sample, histogram

PREFIX = "django_tasks_"
LONG_SECONDS = 60.0
"""From here on the holder of the horizon is named. Who holds it for a moment changes with every scrape."""
OUTCOMES = ("completed", "retried", "failed")
OF_QUEUES: tuple[tuple[str, str, Callable[[QueueState], float]], ...] = (
    ("due", "Tasks that could run now; counted up to 1001 in each lane.", lambda queue: queue.due),
    ("oldest_due_seconds", "How long the task that is due for the longest time waits.", lambda q: q.oldest_seconds),
    ("running", "Tasks that are running.", lambda queue: queue.running),
    ("queue_paused", "1 while an operator has paused the queue.", lambda queue: queue.is_paused),
    ("queue_workers", "Workers alive that serve the queue.", lambda queue: queue.workers),
    ("queue_slots", "Tasks that these workers can run at once.", lambda queue: queue.slots),
)


def families_of(taken: Snapshot) -> Iterator[Family]:
    yield from counters(taken.totals)
    for name, help_text, value in OF_QUEUES:
        samples = [Sample(value(queue), {"queue": queue.name}) for queue in taken.queues]
        yield Family(PREFIX + name, "gauge", help_text, samples)
    yield gauge("retrying", "Tasks that wait for another attempt; counted up to 1001.", taken.retrying)
    yield gauge("expired_leases", "Tasks whose lease expired a minute ago, not recovered by anybody.", taken.expired)
    yield gauge("workers", "Workers alive.", taken.workers)
    yield gauge("slots", "Tasks that the workers alive can run at once.", taken.slots)
    if taken.late_schedules is not None:
        yield gauge("schedules_late", "Schedules whose time has come and that did not fire.", taken.late_schedules)
    yield from horizon(taken.holder)


def gauge(name: str, help_text: str, value: float) -> Family:
    return Family(PREFIX + name, "gauge", help_text, [Sample(value)])


def counters(totals: Sequence[Total]) -> Iterator[Family]:
    attempts = [
        Sample(getattr(total, outcome), {**labels_of(total), "outcome": outcome})
        for total in totals
        for outcome in OUTCOMES
    ]
    yield Family(
        PREFIX + "attempts_total", "counter", "Attempts that ended; retried ones are followed by another.", attempts
    )
    ran = [each for t in totals for each in histogram(BOUNDS, t.ran, t.seconds, labels_of(t))]
    yield Family(PREFIX + "run_seconds", "histogram", "How long attempts ran.", ran)
    waited = [each for t in totals for each in histogram(BOUNDS, t.waited, t.wait_seconds, labels_of(t))]
    yield Family(PREFIX + "wait_seconds", "histogram", "From due to claimed.", waited)


def labels_of(total: Total) -> dict[str, str]:
    return {"queue": total.queue, "task": total.func_path}


def horizon(holder: Holder | None) -> Iterator[Family]:
    help_text = "Age of the oldest transaction that keeps dead rows from being cleaned up."
    yield gauge("horizon_held_seconds", help_text, holder.seconds if holder else 0)
    if holder is not None and holder.seconds >= LONG_SECONDS:
        labels = {
            "pid": holder.pid, "application": holder.application, "state": holder.state, "query": holder.query,
        }  # fmt: skip
        yield Family(PREFIX + "horizon_holder_info", "gauge", "Whose transaction it is.", [Sample(1, labels)])
