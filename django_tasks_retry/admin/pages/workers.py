"""The page of workers: which are alive and what they run; ask one to finish and stop."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.contrib import admin, messages
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.utils.translation import gettext as _

from ... import taskqueue
from ...display.actors import actor_names
from ...display.eligible_workers import is_coroutine
from ...display.formatting import format_ago, format_elapsed, one_line
from ...display.reading import read_rows
from ...display.scope import console_backend, current_scope
from ...display.worker_state import state_of
from ...models import Task, Worker
from ...rules.names import short_name
from ..audit import log_action
from ..base import ConsoleAdmin
from ..bulk.confirm import reason_of
from .operator_events import latest_operator_events

MAX_WORKERS = 200
MAX_TASKS = 1000


@dataclass(frozen=True, slots=True)
class Slots:
    """How many tasks of one kind a worker runs, and how many it could."""

    label: str
    busy: int
    count: int


@dataclass(frozen=True, slots=True)
class WorkerRow:
    key: str
    name: str
    host: str
    version: str
    queues: str
    state: str
    state_label: str
    stop_asked_by: str
    slots: list[Slots]
    running: list[dict[str, Any]]
    started: datetime
    uptime: str
    heartbeat: str
    url: str


@admin.register(Worker)
class WorkerAdmin(ConsoleAdmin):
    def get_post_urls(self) -> list[Any]:
        return [self.post_url("<path:worker_id>/stop/", self.stop_view, "stop")]

    def changelist_view(self, request: HttpRequest, extra_context: Any = None) -> HttpResponse:
        if not self.has_view_permission(request):
            raise PermissionDenied
        scope = current_scope()
        workers = list(Worker.objects.using(scope.using).order_by("-heartbeat_at")[:MAX_WORKERS])
        tasks = Task.objects.using(scope.using).running().order_by("locked_by")[:MAX_TASKS]
        columns = ("id", "func_path", "locked_by", "last_attempt_at")
        running = running_by_worker(read_rows(tasks.only(*columns), columns), scope.now)
        rows, visible = self.rows(workers, running, scope.now), self.has_payload_permission(request)
        context = {
            "workers": [row for row in rows if row.state in ("alive", "stopping")],
            "stopped_workers": [row for row in rows if row.state in ("stopped", "lost")],
            "can_control": self.has_perm(request, "control_worker"),
            "operator_events": latest_operator_events(scope, "worker.", can_see_payload=visible),
            "now": scope.now,
            "live": True,
        }
        return self.render_page(request, "workers", _("Workers"), context)

    def rows(self, workers: Sequence[Worker], running: dict[str, list[Any]], now: datetime) -> list[WorkerRow]:
        names = actor_names({worker.stop_asked_by for worker in workers if worker.stop_asked_by})
        return [self.row(worker, running.get(worker.pk, []), names, now) for worker in workers]

    def row(self, worker: Worker, running: list[Any], names: dict[str, str], now: datetime) -> WorkerRow:
        state, label = state_of(worker, now)
        patterns = ", ".join(worker.queues)
        if worker.exclude:
            text = _("%(queues)s (not %(excluded)s)")
            patterns = text % {"queues": patterns, "excluded": ", ".join(worker.exclude)}
        return WorkerRow(
            key=worker.pk,
            name=one_line(worker.pk, 128),
            host=one_line(f"{worker.host}:{worker.pid}", 120),
            version=one_line(worker.version, 32),
            queues=one_line(patterns, 200),
            state=state,
            state_label=label,
            stop_asked_by=names.get(worker.stop_asked_by, ""),
            slots=slots_of(worker, running),
            running=running,
            started=worker.started_at,
            uptime=format_elapsed(worker.started_at, worker.stopped_at or now),
            heartbeat=format_ago(worker.heartbeat_at, now),
            url=self.url("stop", worker.pk),
        )

    def stop_view(self, request: HttpRequest, worker_id: str) -> HttpResponse:
        if not (self.has_perm(request, "control_worker") and self.has_view_permission(request)):
            raise PermissionDenied
        reason, values = reason_of(request), {"worker": one_line(worker_id, 128)}
        if taskqueue.ask_to_stop(worker_id, by=request.user, reason=reason, backend=console_backend()):
            log_action(request, Worker, [(worker_id, one_line(worker_id, 128))], "stop", reason)
            messages.success(request, _("%(worker)s was asked to finish its running tasks and stop.") % values)
        else:
            messages.warning(request, _("%(worker)s has already stopped or was already asked to stop.") % values)
        return HttpResponseRedirect(self.url("changelist"))


def running_by_worker(tasks: Sequence[Task], now: datetime) -> dict[str, list[dict[str, Any]]]:
    """Running tasks by worker: a worker's children are named after it."""
    found: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for task in tasks:
        age = format_elapsed(task.last_attempt_at or now, now)
        name, is_async = one_line(short_name(task.func_path), 60), is_coroutine(task.func_path)
        running = {"pk": task.pk, "name": name, "age": age, "is_async": is_async}
        found[(task.locked_by or "").rpartition("/")[0] or task.locked_by or ""].append(running)
    return found


def slots_of(worker: Worker, running: Sequence[dict[str, Any]]) -> list[Slots]:
    """Threads and coroutines apart, where the worker tells."""
    coroutines = sum(task["is_async"] for task in running)
    if not worker.threads:
        return [Slots(_("slots"), len(running), worker.slots)]
    found = [
        Slots(_("threads"), len(running) - coroutines, worker.threads),
        Slots(_("async"), coroutines, worker.slots - worker.threads),
    ]
    return [slots for slots in found if slots.count]
