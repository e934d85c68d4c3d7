"""Workers: which are alive, and how one is asked to stop."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from .. import taskqueue
from ..display.formatting import format_ago, format_elapsed, one_line
from ..display.scope import MOST_WORKERS
from ..display.states import worker_end, worker_state
from ..models import Worker
from ..taskqueue.reading import read_rows
from .subcommand import REASON, CliError, Context, Exit, command, option

HEADINGS = ("WORKER", "STATE", "RUNNING", "QUEUES", "TASKS", "VERSION", "UP", "LAST SEEN")
COLUMNS = (
    "host", "pid", "version", "backend", "queues", "exclude", "tasks", "processes", "slots", "running", "started_at",
    "heartbeat_at", "stopped_at", "stop_asked_at", "stop_asked_by",
)  # fmt: skip
NO_WORKER = "No worker is running. Start one: python manage.py runworker"


@command(
    "workers", "Workers: which are alive, what they serve, how busy they are.",
    option("--all", action="store_true", help="also those that have stopped within a day"),
)  # fmt: skip
def workers(context: Context) -> Exit:
    now, stored = context.scope.now, Worker.objects.using(context.using).order_by("-heartbeat_at")
    shown = [
        worker
        for worker in read_rows(stored[:MOST_WORKERS])
        if context["all"] or worker_state(worker, now).name not in ("stopped", "lost")
    ]
    context.output.listing(shown, lambda each: record_of(each, now), HEADINGS, lambda each: worker_row(each, now))
    if not shown:
        context.output.say(NO_WORKER)
    return Exit.OK if shown else Exit.NOT_FOUND


def worker_row(worker: Worker, now: datetime) -> tuple[str, ...]:
    exclude = f" (not {', '.join(worker.exclude)})" if worker.exclude else ""
    return (
        one_line(worker.pk, 128),
        str(worker_state(worker, now).label),
        f"{worker.running}/{worker.slots}",
        one_line(", ".join(worker.queues) + exclude, 100),
        str(len(worker.tasks)),
        one_line(worker.version, 32),
        format_elapsed(worker.started_at, worker_end(worker, now)),
        format_ago(worker.heartbeat_at, now),
    )


def record_of(worker: Worker, now: datetime) -> dict[str, Any]:
    return {
        "id": worker.pk,
        "state": worker_state(worker, now).name,
        **{name: getattr(worker, name) for name in COLUMNS},
    }


@command(
    "stop", "Ask a worker to finish what it runs and stop.",
    option("worker", metavar="WORKER", help="its id, or the beginning of it"),
    REASON,
)  # fmt: skip
def stop(context: Context) -> None:
    worker = one_worker(context)
    name = one_line(worker, 128)
    if not taskqueue.ask_to_stop(worker, **context.decision):
        raise CliError(f"{name} has stopped, or was asked to stop before.", Exit.REFUSED)
    record = {"action": "stop", "worker": worker, "done": 1}
    context.output.answer(record, f"{name} was asked to finish its running tasks and stop.")


def one_worker(context: Context) -> str:
    name: str = context["worker"]
    known = Worker.objects.using(context.using).filter(pk__startswith=name)
    ids = list(known.filter(stopped_at__isnull=True).order_by("pk").values_list("pk", flat=True)[:6])
    if name in ids or len(ids) == 1:
        return name if name in ids else ids[0]
    if not ids:
        raise CliError(f"No running worker has an id that begins with {one_line(name, 128)}.", Exit.NOT_FOUND)
    raise CliError(
        "Several workers have an id that begins so:\n" + "\n".join(f"  {one_line(each, 128)}" for each in ids)
    )
