from __future__ import annotations

import argparse
import textwrap
from collections.abc import Sequence
from typing import Any

from ...display.actors import actor_names
from ...display.display_status import display_status_of
from ...display.events import EVENT_NAMES, as_mapping, event_summary, log_of
from ...display.explain import Explanation, explain
from ...display.formatting import format_duration, one_line, printable
from ...display.reading import read_row, read_rows, unreadable_columns
from ...display.redact import redact_text, redacted_arguments, redacted_json
from ...models import Step, Task, TaskEvent, TaskResult
from ..exit_codes import Exit
from ..records import error_record, event_record, local, payload_record, result_record, task_record
from ..selecting import one_task
from ..subcommand import Context, Subcommand

MAX_EVENTS = 100
SECTIONS = ("why", "events", "traceback")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("id", metavar="ID", help="the task's id, or its first digits")
    only = parser.add_mutually_exclusive_group()
    only.add_argument("--why", action="store_true", help="only why it is where it is")
    only.add_argument("--events", action="store_true", help="only its events")
    only.add_argument("--traceback", action="store_true", help="only the traceback of its last error")


def run(context: Context) -> Exit:
    task = one_task(context, context["id"])
    newest = TaskEvent.objects.using(context.using).filter(task_id=task.pk).order_by("-id")[:MAX_EVENTS]
    events = read_rows(newest)[::-1]
    why = explain(task, events, context.scope, can_see_payload=True)
    chosen = next((name for name in SECTIONS if context[name]), "")
    if context.output.as_json:
        record = full_record(context, task, events, why)
        context.output.record({chosen: record[chosen]} if chosen else record)
    else:
        SHOWN[chosen](context, task, events, why)
    return Exit.OK


def full_record(context: Context, task: Task, events: Sequence[TaskEvent], why: Explanation) -> dict[str, Any]:
    outcome = read_row(TaskResult.objects.using(context.using), task.pk) if task.is_finished else None
    return {
        **task_record(task, context.scope.now),
        **payload_record(task),
        "result": result_record(outcome),
        "why": why.sentence,
        "command": why.command,
        "traceback": traceback_of(task),
        "events": [event_record(event) for event in events],
    }


def show_all(context: Context, task: Task, events: Sequence[TaskEvent], why: Explanation) -> None:
    output = context.output
    output.line(output.paint(f"{one_line(task.func_path, 255)} {task.pk}", "strong"))
    for name, value in facts(context, task):
        output.line(f"{name + ':':<14} {value}")
    section(context, "Why")
    show_why(context, task, events, why)
    if task.last_error:
        error = error_record(as_mapping(task.last_error))
        section(context, "Last error")
        output.line(printable(f"{error['exception'] or error['code']}: {error['message']}", 4000))
        show_traceback(context, task, events, why)
    if log := next((text for event in reversed(events) if (text := log_of(event))), ""):
        section(context, "Log of the last failed attempt")
        output.line(log.rstrip())
    section(context, "Arguments")
    for name, value in redacted_arguments(task, None):
        output.line(textwrap.indent(f"{name} = {value}", "  "))
    if task.metadata:
        section(context, "Metadata")
        output.line(textwrap.indent(redacted_json(task.metadata, None), "  "))
    if steps := read_rows(Step.objects.using(context.using).filter(task_id=task.pk).order_by("id")[:MAX_EVENTS]):
        section(context, "Steps")
        rows = [(local(s.ts), one_line(s.name, 220), one_line(s.kind), str(s.attempt), summed_up(s)) for s in steps]
        output.table(("TIME", "STEP", "KIND", "ATTEMPT", ""), rows)
    if events:
        section(context, "Events")
        show_events(context, task, events, why)


def summed_up(step: Step) -> str:
    return "" if step.result is None else one_line(redacted_json(step.result, None), 80)


def facts(context: Context, task: Task) -> list[tuple[str, str]]:
    found = [
        ("status", display_status_of(task, context.scope.now).name),
        ("queue", one_line(task.queue, 64)),
        ("priority", str(task.priority)),
        ("attempts", f"{task.spent}/{task.max_attempts}" + (f", {task.refunds} refunded" if task.refunds else "")),
        ("enqueued", local(task.created_at)),
        ("not before", local(task.eta)),
        ("expires", local(task.expires_at)),
        ("started", local(task.started_at)),
        ("finished", local(task.finished_at)),
        ("timeout", format_duration(task.timeout)),
        ("worker", one_line(task.locked_by or "", 128)),
        ("run", str(task.run_id)),
        ("batch", str(task.batch or "")),
        ("waits for", one_line(task.waits_for or "", 255)),
        ("after", str(task.follows_id or "")),
        ("retry of", str(task.retry_of_id or "")),
        ("failure", task.fingerprint or ""),
        ("cannot be read", ", ".join(unreadable_columns(task))),
    ]
    return [(name, value) for name, value in found if value]


def section(context: Context, title: str) -> None:
    context.output.line()
    context.output.line(context.output.paint(title, "strong"))


def show_why(context: Context, _task: Task, _events: Sequence[TaskEvent], why: Explanation) -> None:
    context.output.line(why.sentence)
    if why.command:
        context.output.line(f"  {why.command}")


def show_events(context: Context, _task: Task, events: Sequence[TaskEvent], _why: Explanation) -> None:
    names = actor_names({event.actor for event in events})
    headings = ("TIME", "EVENT", "ATTEMPT", "BY", "")
    context.output.table(headings, [event_row(event, names) for event in events])


def event_row(event: TaskEvent, names: dict[str, str]) -> tuple[str, ...]:
    error = as_mapping(as_mapping(event.data).get("error"))
    return (
        local(event.ts),
        str(EVENT_NAMES.get(event.kind, one_line(event.kind))),
        str(event.attempt),
        names[event.actor],
        event_summary(event, error, can_see_payload=True),
    )


def show_traceback(context: Context, task: Task, _events: Sequence[TaskEvent], _why: Explanation) -> None:
    context.output.line(traceback_of(task) or "No traceback is stored.")


def traceback_of(task: Task) -> str:
    return printable(redact_text(str(as_mapping(task.last_error).get("traceback") or "")))


SHOWN = {"": show_all, "why": show_why, "events": show_events, "traceback": show_traceback}
COMMAND = Subcommand(
    "show", "One task: why it is where it is, its last error, its call and its events.", run, add_arguments
)
