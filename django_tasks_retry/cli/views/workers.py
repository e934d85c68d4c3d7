from __future__ import annotations

import argparse
from typing import Any

from ...display.formatting import format_elapsed, format_relative, one_line
from ...display.worker_state import state_of
from ...models import Worker
from ..exit_codes import Exit
from ..subcommand import Context, Subcommand

HEADINGS = ("WORKER", "STATE", "RUNNING", "QUEUES", "TASKS", "VERSION", "UP", "LAST SEEN")
MAX_WORKERS = 1000


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--all", action="store_true", help="also those that have stopped within a day")


def run(context: Context) -> Exit:
    now, stored = context.scope.now, Worker.objects.using(context.using).order_by("-heartbeat_at")
    rows = [(worker, *state_of(worker, now)) for worker in stored[:MAX_WORKERS]]
    shown = [(worker, label) for worker, state, label in rows if context["all"] or state not in ("stopped", "lost")]
    if context.output.as_json:
        for worker, label in shown:
            context.output.record(worker_record(worker, label))
    elif shown:
        context.output.table(HEADINGS, [worker_row(worker, label, now) for worker, label in shown])
    if not shown:
        context.output.say("No worker is running. Start one: python manage.py runworker")
    return Exit.OK if shown else Exit.NOT_FOUND


def worker_row(worker: Worker, label: str, now: Any) -> tuple[str, ...]:
    exclude = f" (not {', '.join(worker.exclude)})" if worker.exclude else ""
    return (
        one_line(worker.pk, 128),
        label,
        f"{worker.running}/{worker.slots}",
        one_line(", ".join(worker.queues) + exclude, 100),
        str(len(worker.tasks)),
        one_line(worker.version, 32),
        format_elapsed(worker.started_at, worker.stopped_at or now),
        format_relative(worker.heartbeat_at, now),
    )


def worker_record(worker: Worker, label: str) -> dict[str, Any]:
    names = ("host", "pid", "version", "backend", "queues", "exclude", "tasks", "processes", "slots", "running")
    times = ("started_at", "heartbeat_at", "stopped_at", "stop_asked_at", "stop_asked_by")
    return {"id": worker.pk, "state": label, **{name: getattr(worker, name) for name in (*names, *times)}}


COMMAND = Subcommand("workers", "Workers: which are alive, what they serve, how busy they are.", run, add_arguments)
