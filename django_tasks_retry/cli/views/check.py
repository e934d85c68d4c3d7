from __future__ import annotations

import argparse
from collections.abc import Iterator
from dataclasses import asdict, dataclass

from ...display.formatting import format_capped, format_duration, one_line
from ...display.scope import Scope
from ...durations import read_duration
from ...rules.queues import matches
from ...taskqueue.operator import summaries
from ...worker.options import read_count, read_names
from ..exit_codes import Exit
from ..figures import QueueFigures, read_queues, read_workers
from ..selecting import counted
from ..subcommand import Context, Subcommand, argument


@dataclass(frozen=True, slots=True)
class Finding:
    """What is not as it should be."""

    what: str
    queue: str
    text: str


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add, duration = parser.add_argument, argument(read_duration)
    add("--max-wait", type=duration, metavar="10m", help="how long the oldest due task may have waited")
    add("--workers", type=argument(read_count), default=1, metavar="N", help="how many must be alive (default: 1)")
    add("--max-failing", type=percentage, metavar="20%", help="share of the latest attempts that may fail")
    add("--queues", type=argument(read_names), default=("*",), metavar="a,b*", help="which to look at (default: all)")


def percentage(text: str) -> float:
    try:
        value = float(text.strip().removesuffix("%")) / 100
    except ValueError:
        value = -1.0
    if not 0 <= value <= 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a percentage. Write for example 20%.")
    return value


def run(context: Context) -> Exit:
    scope = context.scope
    workers = read_workers(scope)
    queues = [queue for queue in read_queues(scope, workers) if matches(queue.name, context["queues"])]
    found = [*worker_findings(context, len(workers)), *lease_findings(scope)]
    for queue in queues:
        found += queue_findings(context, queue)
    if context.output.as_json:
        context.output.record({"ok": not found, "workers": len(workers), "findings": [asdict(each) for each in found]})
    else:
        for each in found:
            context.output.line(context.output.paint(each.text, "bad"))
        if not found:
            context.output.line(
                f"OK: {counted(len(workers), 'worker')} alive, {counted(len(queues), 'queue')} looked at."
            )
    return Exit.FAILED if found else Exit.OK


def worker_findings(context: Context, alive: int) -> Iterator[Finding]:
    if alive < context["workers"]:
        yield Finding("workers", "", f"{counted(alive, 'worker')} alive, {context['workers']} wanted.")


def lease_findings(scope: Scope) -> Iterator[Finding]:
    expired = summaries.expired_leases(scope.using)
    if expired:
        text = f"{format_capped(expired)} tasks lost their worker and nobody has recovered them."
        yield Finding("expired_leases", "", text)


def queue_findings(context: Context, queue: QueueFigures) -> Iterator[Finding]:
    name, limit, share = one_line(queue.name, 64), context["max_wait"], context["max_failing"]
    if queue.due and not queue.workers and not queue.paused_at:
        yield Finding(
            "unserved", queue.name, f"Queue {name}: {format_capped(queue.due)} tasks are due, no worker serves it."
        )
    if limit is not None and queue.due and queue.oldest_wait > limit:
        waited = format_duration(queue.oldest_wait)
        paused = ", and the queue is paused" if queue.paused_at else ""
        text = f"Queue {name}: the oldest due task has waited {waited}, more than {format_duration(limit)}{paused}."
        yield Finding("wait", queue.name, text)
    if share is not None and queue.failing is not None and queue.failing > share:
        text = (
            f"Queue {name}: {queue.failing:.0%} of the attempts of the last ten minutes failed, more than {share:.0%}."
        )
        yield Finding("failing", queue.name, text)


COMMAND = Subcommand("check", "For monitoring: exit code 0 where all is well, 1 where it is not.", run, add_arguments)
