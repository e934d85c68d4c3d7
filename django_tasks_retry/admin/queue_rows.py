"""Queues as the overview and the page of queues show them, and what is wrong with them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from ..models import Queue, Worker
from ..taskqueue.summaries import CAP, Depth
from .activity import Activity
from .base import names_of
from .charts import Shape, sparkline
from .place import queue_names
from .why import knows, serves, start_command
from .wording import between, capped, decimal, line, share

RECENT = 10
"""Buckets that count as now."""


@dataclass(frozen=True, slots=True)
class QueueRow:
    key: str
    name: str
    paused_at: datetime | None
    paused_by: str
    reason: str
    due: int
    due_text: str
    oldest: float
    oldest_text: str
    rate: str
    failing: str
    workers: int
    spark: list[Shape]


@dataclass(frozen=True, slots=True)
class Concern:
    """What is wrong, and the command that mends it."""

    text: str
    command: str = ""


def queue_rows(
    depths: Sequence[Depth], decided: dict[str, Queue], workers: Sequence[Worker], done: Activity, now: datetime
) -> list[QueueRow]:
    lanes: dict[str, list[Depth]] = defaultdict(list)
    for depth in depths:
        lanes[depth.queue].append(depth)
    callers = names_of({queue.paused_by for queue in decided.values() if queue.paused_at})
    names = queue_names({*lanes, *done.queues})
    return [queue_row(name, lanes[name], decided.get(name), callers, workers, done, now) for name in names]


def queue_row(
    name: str,
    lanes: Sequence[Depth],
    decided: Queue | None,
    callers: dict[str, str],
    workers: Sequence[Worker],
    done: Activity,
    now: datetime,
) -> QueueRow:
    due = sum(lane.due for lane in lanes)
    oldest = min((lane.oldest_eta for lane in lanes if lane.due), default=None)
    paused = decided if decided is not None and decided.paused_at else None
    buckets = done.of(name)
    recent = buckets[-RECENT:]
    minutes = done.scale.step.total_seconds() / 60 * len(recent)
    failed = sum(bucket.failed + bucket.retried for bucket in buckets)
    return QueueRow(
        key=name,
        name=line(name, 64),
        paused_at=paused.paused_at if paused else None,
        paused_by=callers[paused.paused_by] if paused else "",
        reason=line(paused.reason, 200) if paused else "",
        due=due,
        due_text=capped(due, CAP),
        oldest=(now - oldest).total_seconds() if oldest else 0.0,
        oldest_text=between(oldest, now) if oldest else "",
        rate=decimal(sum(bucket.attempts for bucket in recent) / minutes),
        failing=share(failed, sum(bucket.attempts for bucket in buckets)),
        workers=sum(serves(worker, name) for worker in workers),
        spark=sparkline(buckets),
    )


def concerns(
    rows: Sequence[QueueRow], depths: Sequence[Depth], workers: Sequence[Worker], expired: int
) -> list[Concern]:
    found = [concern for row in rows if (concern := about_queue(row)) is not None]
    found += about_functions(depths, workers)
    if expired:
        text = ngettext(
            "%s task lost its worker and was not taken back.",
            "%s tasks lost their worker and were not taken back.",
            expired,
        )
        found.append(
            Concern(
                f"{text % capped(expired)} {_('A live worker does that within seconds:')}", "python manage.py runworker"
            )
        )
    return found


def about_queue(row: QueueRow) -> Concern | None:
    told = {"queue": row.name, "due": row.due_text, "by": row.paused_by, "reason": row.reason or "—"}
    if row.paused_at and row.due:
        return Concern(_("Queue %(queue)s: %(due)s waiting, paused by %(by)s (%(reason)s).") % told)
    if row.due and not row.workers:
        return Concern(_("Queue %(queue)s: %(due)s waiting, no live worker:") % told, start_command(row.key))
    return None


def about_functions(depths: Sequence[Depth], workers: Sequence[Worker]) -> list[Concern]:
    """Tasks at the head of their lane that no live worker of their queue knows."""
    found = {}
    for depth in depths:
        serving = [worker for worker in workers if serves(worker, depth.queue)]
        if depth.due and serving and not any(knows(worker, depth.oldest_func_path) for worker in serving):
            told = {"path": line(depth.oldest_func_path), "queue": line(depth.queue, 64)}
            text = _(
                "Queue %(queue)s: no live worker knows %(path)s. Deploy the code that has it, or cancel its tasks."
            )
            found[depth.oldest_func_path] = Concern(text % told)
    return list(found.values())
