"""Workers: which are alive, and how one is asked to stop."""

from datetime import datetime

from .. import taskqueue
from ..display.formatting import format_ago, format_elapsed, one_line
from ..display.scope import MOST_WORKERS
from ..display.states import served_queues, worker_end, worker_state
from ..models import Worker
from ..taskqueue.reading import read_rows
from .output import Column, only_json
from .subcommand import REASON, CliError, Context, Exit, command, option

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
    context.output.listing(shown, columns(now), NO_WORKER)
    return Exit.OK if shown else Exit.NOT_FOUND


def columns(now: datetime) -> list[Column[Worker]]:
    return [
        Column("id", "WORKER"),
        Column("state", "STATE", value=lambda each: worker_state(each, now)),
        Column("running", "RUNNING", lambda each: f"{each.running}/{each.slots}"),
        Column("queues", "QUEUES", lambda each: one_line(served_queues(each), 100)),
        Column("tasks", "TASKS", lambda each: str(len(each.tasks))),
        Column("version", "VERSION"),
        Column("", "UP", lambda each: format_elapsed(each.started_at, worker_end(each, now))),
        Column("heartbeat_at", "LAST SEEN", lambda each: format_ago(each.heartbeat_at, now)),
        *only_json("host", "pid", "backend", "exclude", "processes", "slots"),
        *only_json("started_at", "stopped_at", "stop_asked_at", "stop_asked_by"),
    ]


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
