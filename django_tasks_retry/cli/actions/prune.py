from __future__ import annotations

import argparse
from collections import Counter

from ... import taskqueue
from ...conf import configured_backends
from ...display.formatting import format_number, one_line
from ...taskqueue.operator.control import write_operator_event
from ..changing import add_reason, confirm
from ..exit_codes import Exit
from ..selecting import counted
from ..subcommand import Context, Subcommand, actor

HEADINGS = ("BACKEND", "QUEUE", "STATUS", "TASKS")
Counts = Counter[tuple[str, str, str]]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_reason(parser)
    parser.add_argument("-y", "--yes", action="store_true", help="do not ask")
    parser.add_argument("--dry-run", action="store_true", help="only say what would be deleted")


def run(context: Context) -> Exit:
    backends = [context["backend"]] if context["backend"] else list(configured_backends())
    counts = count(context, backends)
    total = counts.total()
    if context["dry_run"] or not total:
        return show(context, counts)
    confirm(context, total, f"{counted(total)} past their retention will be deleted.")
    for backend in backends:
        delete(context, backend)
    return show(context, counts)


def count(context: Context, backends: list[str]) -> Counts:
    counts: Counts = Counter()
    for backend in backends:
        for page in taskqueue.prunable(backend=backend):
            counts.update({(backend, *key): number for key, number in page.items()})
            context.output.progress(f"{counted(counts.total())} found")
    context.output.progress("", is_last=True)
    return counts


def delete(context: Context, backend: str) -> None:
    done = 0
    for batch in taskqueue.prune(backend=backend):
        done += batch
        context.output.progress(f"{counted(done)} deleted")
    context.output.progress("", is_last=True)
    context.output.say(f"{counted(done)} of backend {one_line(backend, 64)} deleted.")
    if done:
        using = taskqueue.database(backend)
        write_operator_event("tasks.pruned", backend, actor(), context["reason"][:200], using)


def show(context: Context, counts: Counts) -> Exit:
    if context.output.as_json:
        for (backend, queue, status), number in sorted(counts.items()):
            context.output.record({"backend": backend, "queue": queue, "status": status, "tasks": number})
    elif counts:
        rows = [
            (one_line(b, 64), one_line(q, 64), s.lower(), format_number(n)) for (b, q, s), n in sorted(counts.items())
        ]
        context.output.table(HEADINGS, rows)
    else:
        context.output.say("Nothing is past its retention.")
    return Exit.OK


COMMAND = Subcommand(
    "prune", "Delete finished tasks past their retention, as workers do every hour.", run, add_arguments
)
