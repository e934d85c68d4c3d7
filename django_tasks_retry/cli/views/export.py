from __future__ import annotations

import argparse
from collections import defaultdict
from collections.abc import Sequence
from typing import Any
from uuid import UUID

from ...display.reading import read_rows
from ...models import Task, TaskEvent, TaskResult
from ...selection.walk import walk
from ..exit_codes import Exit
from ..records import event_record, payload_record, result_record, task_record
from ..selecting import add_words, counted, read_query, read_tasks
from ..subcommand import Context, Subcommand

PAGE = 200


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_words(parser)
    parser.add_argument("--raw", action="store_true", help="as it is stored: secrets are not hidden")


def run(context: Context) -> Exit:
    """The oldest first, so that what was exported before comes first again."""
    query, total = read_query(context), 0
    for page in walk(query, context.using, size=PAGE):
        for record in records(context, page):
            context.output.record(record)
        total += len(page)
        context.output.progress(f"{counted(total)} exported")
    context.output.progress("", is_last=True)
    context.output.say(f"{counted(total)} exported.")
    return Exit.OK if total else Exit.NOT_FOUND


def records(context: Context, ids: Sequence[UUID]) -> list[dict[str, Any]]:
    raw, now = context["raw"], context.scope.now
    results = {each.task_id: each for each in read_rows(TaskResult.objects.using(context.using).filter(pk__in=ids))}
    events: dict[UUID, list[TaskEvent]] = defaultdict(list)
    for event in read_rows(TaskEvent.objects.using(context.using).filter(task_id__in=ids).order_by("id")):
        events[event.task_id].append(event)
    return [export(task, results.get(task.pk), events[task.pk], now, raw=raw) for task in read_tasks(context, ids)]


def export(
    task: Task, outcome: TaskResult | None, events: Sequence[TaskEvent], now: Any, *, raw: bool
) -> dict[str, Any]:
    policy = {
        name: getattr(task, name) for name in ("unique_key", "backoff", "timeout", "interval", "slot", "parent_id")
    }
    return {
        **task_record(task, now),
        **policy,
        **payload_record(task, raw=raw),
        **({"error": task.last_error} if raw else {}),
        "result": result_record(outcome, raw=raw),
        "events": [event_record(event, raw=raw) for event in events],
    }


COMMAND = Subcommand(
    "export", "Tasks with calls, results and events as JSON lines, the oldest first.", run, add_arguments
)
