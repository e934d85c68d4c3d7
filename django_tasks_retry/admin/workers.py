"""The page of workers: which are alive and what they run; ask one to finish and stop."""

from collections import defaultdict
from collections.abc import Sequence
from datetime import datetime
from functools import partial
from typing import Any

from django.contrib import admin
from django.http import HttpRequest, HttpResponse
from django.utils.translation import gettext as _

from .. import taskqueue
from ..display.events import actor_names, latest_operator_events
from ..display.formatting import format_ago, format_elapsed, one_line, task_name
from ..display.scope import current_scope
from ..display.states import badge, served_queues, worker_end, worker_state
from ..models import Task, Worker
from ..registry import is_coroutine
from ..rules.names import worker_of
from ..taskqueue.reading import read_rows
from .base import ConsoleAdmin

MAX_WORKERS = 200
MAX_TASKS = 1000


@admin.register(Worker)
class WorkerAdmin(ConsoleAdmin):
    def get_post_urls(self) -> list[Any]:
        return [self.post_url("<path:worker_id>/stop/", self.stop_view, "stop", "control_worker")]

    def changelist_view(self, request: HttpRequest, extra_context: Any = None) -> HttpResponse:
        scope = current_scope()
        workers = read_rows(Worker.objects.using(scope.using).order_by("-heartbeat_at")[:MAX_WORKERS])
        tasks = Task.objects.using(scope.using).running().order_by("locked_by")[:MAX_TASKS]
        columns = ("id", "func_path", "locked_by", "last_attempt_at")
        running = running_by_worker(read_rows(tasks.only(*columns), columns), scope.now)
        rows, visible = self.rows(workers, running, scope.now), self.has_payload_permission(request)
        context = {
            "workers": [row for state in ("lost", "alive", "stopping") for row in rows if row["state"] == state],
            "stopped_workers": [row for row in rows if row["state"] == "stopped"],
            "is_any_alive": any(row["state"] in ("alive", "stopping") for row in rows),
            "can_control": self.has_perm(request, "control_worker"),
            "operator_events": latest_operator_events(scope, "worker.", can_see_payload=visible),
            "now": scope.now,
            "live": True,
        }
        return self.render_page(request, "workers", _("Workers"), context)

    def rows(self, workers: Sequence[Worker], running: dict[str, list[Any]], now: datetime) -> list[dict[str, Any]]:
        names = actor_names({worker.stop_asked_by for worker in workers if worker.stop_asked_by})
        return [self.row(worker, running.get(worker.pk, []), names, now) for worker in workers]

    def row(self, worker: Worker, running: list[Any], names: dict[str, str], now: datetime) -> dict[str, Any]:
        state = worker_state(worker, now)
        return {
            "key": worker.pk,
            "name": one_line(worker.pk, 128),
            "host": one_line(f"{worker.host}:{worker.pid}", 120),
            "version": one_line(worker.version, 32),
            "queues": one_line(served_queues(worker), 200),
            "state": state.name,
            "badge": badge(state),
            "stop_asked_by": names.get(worker.stop_asked_by, ""),
            "slots": slots_of(worker, running),
            "running": running,
            "uptime": format_elapsed(worker.started_at, worker_end(worker, now)),
            "heartbeat": format_ago(worker.heartbeat_at, now),
            "url": self.url("stop", worker.pk),
        }

    def stop_view(self, request: HttpRequest, worker_id: str) -> HttpResponse:
        values = {"worker": one_line(worker_id, 128)}
        done = _("%(worker)s was asked to finish its running tasks and stop.") % values
        refused = _("%(worker)s has already stopped or was already asked to stop.") % values
        verb = partial(taskqueue.ask_to_stop, worker_id)
        return self.decide(request, worker_id, "stop", verb, done, refused=refused)


def running_by_worker(tasks: Sequence[Task], now: datetime) -> dict[str, list[dict[str, Any]]]:
    """Group running tasks by worker. Leases name a worker's child: the worker's id, a slash and a number."""
    found: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for task in tasks:
        age = format_elapsed(task.last_attempt_at or now, now)
        name, is_async = task_name(task.func_path, 60), is_coroutine(task.func_path)
        running = {"pk": task.pk, "name": name, "age": age, "is_async": is_async}
        found[worker_of(task.locked_by)].append(running)
    return found


def slots_of(worker: Worker, running: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return busy and existing slots by kind: threads and coroutines if the worker reports them."""
    coroutines = sum(task["is_async"] for task in running)
    if not worker.threads:
        return [{"label": _("slots"), "busy": len(running), "count": worker.slots}]
    found = [
        {"label": _("threads"), "busy": len(running) - coroutines, "count": worker.threads},
        {"label": _("async"), "busy": coroutines, "count": worker.slots - worker.threads},
    ]
    return [slots for slots in found if slots["count"]]
