"""Queues as the overview and the page of queues show them, and the problems that they have."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime

from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from ...display.actors import actor_names
from ...display.eligible_workers import (
    knows_task,
    no_tasks_advice,
    runworker_command,
    serves_queue,
    unknown_task_advice,
)
from ...display.formatting import (
    format_capped,
    format_decimal,
    format_duration,
    format_number,
    format_percentage,
    one_line,
)
from ...display.redact import visible_reason
from ...display.scope import Scope, queue_names
from ...models import Queue, Worker
from ...taskqueue.operator.summaries import CAP, Depth
from ...taskqueue.producer.backlog import full_queues
from .activity import Activity, Bucket
from .charts import Shape, sparkline

RUNWORKER = "python manage.py runworker"
MAX_UNKNOWN = 5
"""Unknown functions that are named."""

RECENT = 10
"""Buckets that the present rate is taken from."""


@dataclass(frozen=True, slots=True)
class Pause:
    at: datetime
    by: str
    reason: str


@dataclass(frozen=True, slots=True)
class QueueSummary:
    key: str
    name: str
    pause: Pause | None
    due: int
    oldest_wait: float
    workers: int
    rate: str
    failing: str
    is_failing: bool
    spark: list[Shape]
    full: int = 0
    """How many tasks may wait, where as many do."""

    @property
    def due_text(self) -> str:
        return format_capped(self.due, CAP)

    @property
    def oldest_wait_text(self) -> str:
        return format_duration(self.oldest_wait) if self.oldest_wait else ""


@dataclass(frozen=True, slots=True)
class Problem:
    """What is wrong, the command that solves it, the page that shows more, and the queue to resume."""

    text: str
    command: str = ""
    page: str = ""
    params: Mapping[str, str] = field(default_factory=dict)
    resume: str = ""

    @property
    def resume_name(self) -> str:
        return one_line(self.resume, 64)


def summarize_queues(
    scope: Scope, depths: Sequence[Depth], workers: Sequence[Worker], activity: Activity, *, can_see_payload: bool
) -> list[QueueSummary]:
    by_queue: dict[str, list[Depth]] = defaultdict(list)
    for depth in depths:
        by_queue[depth.queue].append(depth)
    pauses = find_pauses(scope, can_see_payload=can_see_payload)
    names = queue_names({*by_queue, *activity.queues})
    full = full_queues(names, scope.backend, scope.using)
    summaries = [
        summarize_queue(name, by_queue[name], pauses.get(name), workers, activity, scope.now) for name in names
    ]
    return [replace(each, full=full[each.key].waiting) if each.key in full else each for each in summaries]


def find_pauses(scope: Scope, *, can_see_payload: bool) -> dict[str, Pause]:
    paused = [queue for queue in Queue.objects.using(scope.using).paused() if queue.paused_at]
    names = actor_names({queue.paused_by for queue in paused})
    return {
        queue.name: Pause(
            queue.paused_at, names[queue.paused_by], visible_reason(queue.reason, can_see_payload=can_see_payload)
        )
        for queue in paused
        if queue.paused_at
    }


def summarize_queue(
    name: str,
    depths: Sequence[Depth],
    pause: Pause | None,
    workers: Sequence[Worker],
    activity: Activity,
    now: datetime,
) -> QueueSummary:
    oldest = min((depth.oldest_eta for depth in depths if depth.due), default=now)
    buckets = activity.for_queue(name)
    return QueueSummary(
        key=name,
        name=one_line(name, 64),
        pause=pause,
        due=sum(depth.due for depth in depths),
        oldest_wait=(now - oldest).total_seconds(),
        workers=sum(serves_queue(worker, name) for worker in workers),
        rate=attempts_per_minute(buckets[-RECENT:], activity),
        failing=failure_rate(buckets),
        is_failing=is_failing(buckets[-RECENT:]),
        spark=sparkline(buckets),
    )


def attempts_per_minute(buckets: Sequence[Bucket], activity: Activity) -> str:
    minutes = activity.scale.step.total_seconds() / 60 * len(buckets)
    return format_decimal(sum(bucket.attempts for bucket in buckets) / minutes)


def is_failing(buckets: Sequence[Bucket]) -> bool:
    """Whether at least half of the latest attempts failed."""
    failed = sum(bucket.failed + bucket.retried for bucket in buckets)
    return bool(failed) and failed * 2 >= sum(bucket.attempts for bucket in buckets)


def failure_rate(buckets: Sequence[Bucket]) -> str:
    failed = sum(bucket.failed + bucket.retried for bucket in buckets)
    return format_percentage(failed, sum(bucket.attempts for bucket in buckets))


def find_problems(
    queues: Sequence[QueueSummary], depths: Sequence[Depth], workers: Sequence[Worker], expired: int
) -> list[Problem]:
    problems = [paused_problem(queue, queue.pause) for queue in queues if queue.due and queue.pause]
    if not workers:
        return problems + no_worker_problems(queues, expired)
    problems += [unserved_problem(queue) for queue in queues if queue.due and not (queue.pause or queue.workers)]
    problems += [full_problem(queue) for queue in queues if queue.full]
    problems += [failing_problem(queue) for queue in queues if queue.is_failing]
    problems += [no_tasks_problem(worker) for worker in workers if not worker.tasks]
    problems += unknown_task_problems(depths, [worker for worker in workers if worker.tasks])
    if expired:
        problems.append(expired_lease_problem(expired))
    return problems


def paused_problem(queue: QueueSummary, pause: Pause) -> Problem:
    values = {"queue": queue.name, "due": queue.due_text, "by": pause.by, "reason": pause.reason or "—"}
    text = _("Queue %(queue)s: %(due)s waiting, paused by %(by)s (%(reason)s).") % values
    return Problem(text, page="task", params={"queue": queue.key, "status": "ready"}, resume=queue.key)


def unserved_problem(queue: QueueSummary) -> Problem:
    values = {"queue": queue.name, "due": queue.due_text}
    return Problem(
        _("Queue %(queue)s: %(due)s waiting, but no running worker. Start one:") % values,
        runworker_command(queue.key),
        "task",
        {"queue": queue.key, "status": "ready"},
    )


def no_worker_problems(queues: Sequence[QueueSummary], expired: int) -> list[Problem]:
    """One line for all queues: whatever else is wrong follows from it."""
    due = sum(queue.due for queue in queues if not queue.pause)
    if not (due or expired):
        return []
    text = ngettext(
        "No worker is running: %(due)s task is waiting.",
        "No worker is running: %(due)s tasks are waiting.",
        due,
    )
    lost = [lost_tasks_text(expired)] if expired else []
    sentences = [text % {"due": format_capped(due)}, *lost, _("Start one:")]
    return [Problem(" ".join(sentences), RUNWORKER, "worker")]


def full_problem(queue: QueueSummary) -> Problem:
    text = _("Queue %(queue)s is full: %(count)s tasks wait, as many as OPTIONS['BACKLOG'] allows.")
    values = {"queue": queue.name, "count": format_number(queue.full)}
    return Problem(text % values, page="task", params={"queue": queue.key})


def failing_problem(queue: QueueSummary) -> Problem:
    text = _("Queue %(queue)s: at least half of the latest attempts failed.")
    return Problem(text % {"queue": queue.name}, page="failuregroup")


def no_tasks_problem(worker: Worker) -> Problem:
    text = _("Worker %(worker)s knows no task at all, so it runs none.") % {"worker": one_line(worker.pk, 128)}
    return Problem(f"{text} {no_tasks_advice()}", page="worker")


def unknown_task_problems(depths: Sequence[Depth], workers: Sequence[Worker]) -> list[Problem]:
    """Functions that due tasks call, but no running worker of their queue knows."""
    unknown = {
        path: depth.queue
        for depth in depths
        for path in depth.func_paths
        if (serving := [worker for worker in workers if serves_queue(worker, depth.queue)])
        and not any(knows_task(worker, path) for worker in serving)
    }
    problems = [unknown_task_problem(path, queue) for path, queue in list(unknown.items())[:MAX_UNKNOWN]]
    if len(unknown) > MAX_UNKNOWN:
        text = ngettext(
            "No running worker knows %s more function that tasks wait for.",
            "No running worker knows %s more functions that tasks wait for.",
            len(unknown) - MAX_UNKNOWN,
        )
        problems.append(Problem(text % format_number(len(unknown) - MAX_UNKNOWN), page="worker"))
    return problems


def unknown_task_problem(path: str, queue: str) -> Problem:
    text = _("Queue %(queue)s: no running worker knows %(path)s.")
    said = text % {"path": one_line(path), "queue": one_line(queue, 64)}
    return Problem(f"{said} {unknown_task_advice(path)}", page="task", params={"task": path, "status": "ready"})


def expired_lease_problem(expired: int) -> Problem:
    advice = _("A running worker recovers such tasks within seconds:")
    return Problem(f"{lost_tasks_text(expired)} {advice}", RUNWORKER)


def lost_tasks_text(expired: int) -> str:
    text = ngettext(
        "%s task lost its worker and has not been recovered.",
        "%s tasks lost their worker and have not been recovered.",
        expired,
    )
    return text % format_capped(expired)
