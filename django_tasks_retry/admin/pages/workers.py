"""Workers: who is alive and what they do; ask one to finish and stop."""

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
from ...models import Task, Worker
from ...taskqueue.workers import ALIVE_SECONDS
from .. import audit
from ..base import ConsoleAdmin, names_of
from ..display.formatting import ago, between, line, short_path
from ..scope import backend, here
from .queues import history

SHOWN = 200
TASKS = 1000


@dataclass(frozen=True, slots=True)
class WorkerRow:
    key: str
    name: str
    host: str
    version: str
    queues: str
    state: str
    state_name: str
    stop_asked_by: str
    slots: int
    running: list[dict[str, Any]]
    started: datetime
    age: str
    heartbeat: str
    url: str


@admin.register(Worker)
class WorkerAdmin(ConsoleAdmin):
    def posts(self) -> list[Any]:
        return [self.post("<path:worker_id>/stop/", self.stop, "stop")]

    def changelist_view(self, request: HttpRequest, extra_context: Any = None) -> HttpResponse:
        if not self.has_view_permission(request):
            raise PermissionDenied
        place = here()
        workers = list(Worker.objects.using(place.using).order_by("-heartbeat_at")[:SHOWN])
        tasks = Task.objects.using(place.using).running().order_by("locked_by")[:TASKS]
        running = by_worker(list(tasks.only("pk", "func_path", "locked_by", "last_attempt_at")), place.now)
        rows = self.rows(workers, running, place.now)
        context = {
            "workers": [row for row in rows if row.state != "gone"],
            "gone": [row for row in rows if row.state == "gone"],
            "can_control": self.allows(request, "control_worker"),
            "history": history(place, "worker."),
        }
        return self.page(request, "workers", _("Workers"), context)

    def rows(self, workers: Sequence[Worker], running: dict[str, list[Any]], now: datetime) -> list[WorkerRow]:
        names = names_of({worker.stop_asked_by for worker in workers if worker.stop_asked_by})
        return [self.row(worker, running.get(worker.pk, []), names, now) for worker in workers]

    def row(self, worker: Worker, running: list[Any], names: dict[str, str], now: datetime) -> WorkerRow:
        state, label = state_of(worker, now)
        patterns = ", ".join(worker.queues) + (f" ({_('not')} {', '.join(worker.exclude)})" if worker.exclude else "")
        return WorkerRow(
            key=worker.pk,
            name=line(worker.pk, 128),
            host=line(f"{worker.host}:{worker.pid}", 120),
            version=line(worker.version, 32),
            queues=line(patterns, 200),
            state=state,
            state_name=label,
            stop_asked_by=names.get(worker.stop_asked_by, ""),
            slots=worker.slots,
            running=running,
            started=worker.started_at,
            age=between(worker.started_at, worker.stopped_at or now),
            heartbeat=ago(worker.heartbeat_at, now),
            url=self.url("stop", worker.pk),
        )

    def stop(self, request: HttpRequest, worker_id: str) -> HttpResponse:
        if not (self.allows(request, "control_worker") and self.has_view_permission(request)):
            raise PermissionDenied
        reason, told = request.POST.get("reason", "").strip(), {"worker": line(worker_id, 128)}
        if taskqueue.ask_to_stop(worker_id, by=request.user, reason=reason, backend=backend()):
            audit.log(request, Worker, [(worker_id, line(worker_id, 128))], f"stop: {reason}" if reason else "stop")
            messages.success(request, _("%(worker)s was asked to finish its tasks and stop.") % told)
        else:
            messages.warning(request, _("%(worker)s has stopped or was asked before.") % told)
        return HttpResponseRedirect(self.url("changelist"))


def state_of(worker: Worker, now: datetime) -> tuple[str, str]:
    if worker.stopped_at:
        return "gone", _("stopped")
    if (now - worker.heartbeat_at).total_seconds() > ALIVE_SECONDS:
        return "gone", _("not heard of")
    if worker.stop_asked_at:
        return "stopping", _("finishing")
    return "alive", _("alive")


def by_worker(tasks: Sequence[Task], now: datetime) -> dict[str, list[dict[str, Any]]]:
    """Running tasks by worker: a worker's children are named after it."""
    found: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for task in tasks:
        age = between(task.last_attempt_at or now, now)
        told = {"pk": task.pk, "name": line(short_path(task.func_path), 60), "age": age}
        found[(task.locked_by or "").rpartition("/")[0] or task.locked_by or ""].append(told)
    return found
