"""The page of queues: how each is doing; pause and resume."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from django.contrib import admin
from django.http import Http404, HttpRequest, HttpResponse
from django.utils.translation import gettext as _

from .. import taskqueue
from ..display.actors import Pause, describe_pauses
from ..display.events import latest_operator_events
from ..display.formatting import format_capped, format_decimal, format_duration, format_percentage, one_line
from ..display.scope import Scope, console_database, current_scope, queue_names
from ..models import Queue, Worker
from ..taskqueue import alive_workers, sound_workers
from ..taskqueue.enqueue.backlog import full_queues
from ..taskqueue.statistics import summaries
from ..taskqueue.statistics.summaries import CAP, Depth, QueueFigures, paused_queues, queue_figures
from .base import ConsoleAdmin
from .parts.charts import SCALES, Activity, Bucket, Shape, read_activity, sparkline

RECENT = 10
"""The number of newest buckets that the present rate is computed from."""


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
    """The backlog limit, if it is reached."""

    @property
    def due_text(self) -> str:
        return format_capped(self.due, CAP)

    @property
    def oldest_wait_text(self) -> str:
        return format_duration(self.oldest_wait) if self.oldest_wait else ""


def summarize_queues(
    scope: Scope, depths: Sequence[Depth], workers: Sequence[Worker], activity: Activity, *, can_see_payload: bool
) -> list[QueueSummary]:
    paused = paused_queues(scope.using)
    pauses = describe_pauses(paused.values(), can_see_payload=can_see_payload)
    names = queue_names({depth.queue for depth in depths} | activity.queues.keys())
    full = full_queues(names, scope.backend, scope.using)
    return [
        summarize_queue(each, pauses.get(each.name), activity, full.get(each.name, 0))
        for each in queue_figures(names, depths, workers, scope.now, paused=paused)
    ]


def summarize_queue(figures: QueueFigures, pause: Pause | None, activity: Activity, full: int) -> QueueSummary:
    buckets = activity.for_queue(figures.name)
    return QueueSummary(
        key=figures.name,
        name=one_line(figures.name, 64),
        pause=pause,
        due=figures.due,
        oldest_wait=figures.oldest_seconds,
        workers=figures.workers,
        rate=attempts_per_minute(buckets[-RECENT:], activity),
        failing=format_percentage(*failures_and_attempts(buckets)),
        is_failing=is_failing(buckets[-RECENT:]),
        spark=sparkline(buckets),
        full=full,
    )


def attempts_per_minute(buckets: Sequence[Bucket], activity: Activity) -> str:
    minutes = activity.scale.step.total_seconds() / 60 * len(buckets)
    return format_decimal(sum(bucket.attempts for bucket in buckets) / minutes)


def failures_and_attempts(buckets: Sequence[Bucket]) -> tuple[int, int]:
    return sum(bucket.failures for bucket in buckets), sum(bucket.attempts for bucket in buckets)


def is_failing(buckets: Sequence[Bucket]) -> bool:
    """Return whether at least half of the attempts failed."""
    failures, attempts = failures_and_attempts(buckets)
    return bool(failures) and failures * 2 >= attempts


@admin.register(Queue)
class QueueAdmin(ConsoleAdmin):
    def get_post_urls(self) -> list[Any]:
        return [
            self.post_url("<path:name>/pause/", self.pause_view, "pause", "pause_queue"),
            self.post_url("<path:name>/resume/", self.resume_view, "resume", "pause_queue"),
        ]

    def changelist_view(self, request: HttpRequest, extra_context: Any = None) -> HttpResponse:
        scope = current_scope()
        workers = sound_workers(alive_workers(scope.backend).order_by("id")[:1000])
        depths, activity = summaries.depths(scope.using), read_activity(scope, SCALES["1h"])
        visible = self.has_payload_permission(request)
        queues = summarize_queues(scope, depths, workers, activity, can_see_payload=visible)
        context = {
            "queues": [(queue, self.url("pause", queue.key), self.url("resume", queue.key)) for queue in queues],
            "can_pause": self.has_perm(request, "pause_queue"),
            "operator_events": latest_operator_events(scope, "queue.", can_see_payload=visible),
            "now": scope.now,
            "live": True,
        }
        return self.render_page(request, "queues", _("Queues"), context)

    def pause_view(self, request: HttpRequest, name: str) -> HttpResponse:
        if name not in queue_names(depth.queue for depth in summaries.depths(console_database())):
            raise Http404
        done = _("Queue %(queue)s is paused.") % {"queue": one_line(name, 64)}
        return self.decide(request, name, "pause", partial(taskqueue.pause, name), done)

    def resume_view(self, request: HttpRequest, name: str) -> HttpResponse:
        values = {"queue": one_line(name, 64)}
        done, refused = _("Queue %(queue)s is resumed.") % values, _("Queue %(queue)s was not paused.") % values
        return self.decide(request, name, "resume", partial(taskqueue.resume, name), done, refused=refused)
