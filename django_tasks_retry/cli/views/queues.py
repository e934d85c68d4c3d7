from __future__ import annotations

from dataclasses import asdict

from ...display.actors import actor_names
from ...display.formatting import format_capped, format_decimal, format_duration, format_percentage, one_line
from ...display.redact import redact_text
from ...taskqueue.producer.backlog import full_queues
from ..exit_codes import Exit
from ..figures import QueueFigures, read_queues, read_workers
from ..subcommand import Context, Subcommand

HEADINGS = ("QUEUE", "STATE", "READY", "OLDEST", "RUNNING", "WORKERS", "PER MINUTE", "FAILING")


def run(context: Context) -> Exit:
    scope = context.scope
    queues = read_queues(scope, read_workers(scope))
    if context.output.as_json:
        for queue in queues:
            shown = asdict(queue) | {"per_minute": queue.per_minute, "failing": queue.failing}
            context.output.record(shown | {"reason": redact_text(queue.reason)})
        return Exit.OK
    context.output.table(HEADINGS, [queue_row(queue) for queue in queues])
    full = full_queues([queue.name for queue in queues], scope.backend, scope.using)
    for name, backlog in full.items():
        context.output.say(f"{one_line(name, 64)} is full: {backlog.waiting} tasks wait, and then: {backlog.full}")
    names = actor_names({queue.paused_by for queue in queues if queue.paused_at})
    for queue in queues:
        if queue.paused_at:
            reason = one_line(redact_text(queue.reason), 200) or "no reason given"
            context.output.say(f"{one_line(queue.name, 64)} was paused by {names[queue.paused_by]}: {reason}")
    return Exit.OK


def queue_row(queue: QueueFigures) -> tuple[str, ...]:
    return (
        one_line(queue.name, 64),
        state_of(queue),
        format_capped(queue.due),
        format_duration(queue.oldest_wait) if queue.due else "",
        str(queue.running),
        str(queue.workers),
        format_decimal(queue.per_minute),
        format_percentage(queue.failures, queue.attempts),
    )


def state_of(queue: QueueFigures) -> str:
    if queue.paused_at:
        return "PAUSED"
    return "served" if queue.workers else "NO WORKER"


COMMAND = Subcommand("queues", "Queues: how many tasks are ready, how long they wait, who serves them.", run)
