"""Views of tasks: list, show, events, export."""

import argparse
import textwrap
import time
from collections import defaultdict, deque
from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import Any
from uuid import UUID

from django.db.models import QuerySet

from ..display.events import EVENT_NAMES, actor_names, as_mapping, event_summary, log_of
from ..display.explain import explain
from ..display.formatting import counted, one_line, printable
from ..display.redact import redacted_arguments, redacted_json
from ..display.states import Explanation, State, retry_of_task, task_facts, task_state
from ..models import Step, Task, TaskEvent, TaskResult
from ..rules.names import short_id
from ..rules.redact import redact_text
from ..selection.actions import RETRY
from ..selection.matching import walk
from ..taskqueue import engine_for, read_row, read_rows, statistics, unreadable_columns
from . import records
from .output import cell
from .subcommand import Context, Exit, command, option

MAX_EVENTS = 100
SECTIONS = {
    "why": "only why it is where it is",
    "events": "only its events",
    "traceback": "only the traceback of its last error",
}
EXPORT_PAGE = 200
POLL_SECONDS = 1.0
FOLLOW_PAGE = 500
LATE = 1000  # events that may commit after others with a higher number, and are read again


@command(
    "list", "Tasks that match, the newest first.", records.WORDS,
    option("-n", "--limit", type=int, default=25, metavar="N", help="at most so many (default: 25; 0: all)"),
    option("--ids", action="store_true", help="whole ids only, one per line"),
)  # fmt: skip
def list_tasks(context: Context) -> Exit:
    query, output, rows, found = records.read_query(context), context.output, [], 0
    for page in records.newest(context, query, context["limit"]):
        found += len(page)
        if context["ids"]:
            for task_id in page:
                output.line(str(task_id))
            continue
        now = context.scope.now
        for task in records.read_tasks(context, page, records.LIST_COLUMNS):
            if output.as_json:
                output.record(records.task_record(task, now))
            else:
                rows.append(records.task_row(task, now))
    if rows:
        output.table([records.HEADINGS, *rows])
    if not found:
        output.say("No task matches.")
        return Exit.NOT_FOUND
    if context["limit"] and found >= context["limit"]:
        output.say(f"The newest {found}; -n 0 shows all.")
    return Exit.OK


def choose_section(parser: argparse.ArgumentParser) -> None:
    only = parser.add_mutually_exclusive_group()
    for name, text in SECTIONS.items():
        only.add_argument(f"--{name}", action="store_true", help=text)


@command(
    "show", "One task: why it is where it is, its last error, its call and its events.", records.ID, choose_section
)
def show(context: Context) -> None:
    task = records.one_task(context)
    latest = TaskEvent.objects.using(context.using).filter(task_id=task.pk).order_by("-id")[:MAX_EVENTS]
    events = read_rows(latest)[::-1]
    why = explain(task, events, context.scope, can_see_payload=True)
    chosen = next((name for name in SECTIONS if context[name]), "")
    if context.output.as_json:
        record = full_record(context, task, events, why)
        context.output.record({chosen: record[chosen]} if chosen else record)
    elif chosen == "why":
        show_why(context, why)
    elif chosen == "events":
        show_events(context, events)
    elif chosen == "traceback":
        context.output.line(traceback_of(task) or "No traceback is stored.")
    else:
        show_all(context, task, events, why)


def full_record(context: Context, task: Task, events: Sequence[TaskEvent], why: Explanation) -> dict[str, Any]:
    outcome = read_row(TaskResult.objects.using(context.using), task.pk) if task.is_finished else None
    safety = safety_of(context, task, events)
    return {
        **records.task_record(task, context.scope.now),
        **records.payload_record(task),
        "result": records.shown(outcome and outcome.result),
        "why": why.sentence,
        "command": why.command,
        "retry": safety and {"state": safety[0].name, "reasons": safety[1]},
        "traceback": traceback_of(task),
        "events": [records.event_record(event) for event in events],
    }


def show_all(context: Context, task: Task, events: Sequence[TaskEvent], why: Explanation) -> None:
    output = context.output
    output.line(output.paint(f"{one_line(task.func_path, 255)} {task.pk}", "strong"))
    for name, value in facts(task, context.scope.now):
        output.line(f"{name + ':':<14} {value}")
    section(context, "Why")
    show_why(context, why)
    if safety := safety_of(context, task, events):
        section(context, str(safety[0].label), " ".join(safety[1]))
    if task.last_error:
        error = records.error_record(as_mapping(task.last_error))
        message = printable(f"{error['exception'] or error['code']}: {error['message']}", 4000)
        section(context, "Last error", message, traceback_of(task) or "No traceback is stored.")
    if log := next((text for event in reversed(events) if (text := log_of(event))), ""):
        section(context, "Log of the last failed attempt", log.rstrip())
    arguments = (textwrap.indent(f"{name} = {value}", "  ") for name, value in redacted_arguments(task, None))
    section(context, "Arguments", *arguments)
    if task.metadata:
        section(context, "Metadata", textwrap.indent(redacted_json(task.metadata, None), "  "))
    if steps := read_rows(Step.objects.using(context.using).filter(task_id=task.pk).order_by("id")[:MAX_EVENTS]):
        section(context, "Steps")
        output.table([("TIME", "STEP", "KIND", "ATTEMPT", ""), *map(step_row, steps)])
    if events:
        section(context, "Events")
        show_events(context, events)


def safety_of(context: Context, task: Task, events: Sequence[TaskEvent]) -> tuple[State, list[str]] | None:
    """Return what the console says beside its button; None if the task cannot be retried."""
    retries = Task.objects.using(context.using).filter(retry_of=task.pk)
    return retry_of_task(task, events, int(retries.exists())) if RETRY.is_possible(task.status) else None


def section(context: Context, title: str, *lines: str) -> None:
    for line in ("", context.output.paint(title, "strong"), *lines):
        context.output.line(line)


def facts(task: Task, now: datetime) -> list[tuple[str, str]]:
    """Return what the console shows, and what it shows as links."""
    shown = task_facts(task, now, can_see_payload=True)
    found = [
        ("status", task_state(task, now).name),
        *((name, cell(value) if isinstance(value, datetime) else str(value)) for name, _label, value in shown),
        ("waits for", one_line(task.waits_for or "", 255)),
        ("after", str(task.follows_id or "")),
        ("retry of", str(task.retry_of_id or "")),
        ("failure", task.fingerprint or ""),
        ("cannot be read", ", ".join(unreadable_columns(task))),
    ]
    return [(name, value) for name, value in found if value]


def step_row(step: Step) -> tuple[str, ...]:
    result = "" if step.result is None else one_line(redacted_json(step.result, None), 80)
    return cell(step.ts), one_line(step.name.removesuffix(":until"), 220), step.kind, str(step.attempt), result


def show_why(context: Context, why: Explanation) -> None:
    context.output.line(why.sentence)
    if why.command:
        context.output.line(f"  {why.command}")


def show_events(context: Context, events: Sequence[TaskEvent]) -> None:
    names = actor_names({event.actor for event in events})
    rows = [event_row(event, names) for event in events]
    context.output.table([("TIME", "EVENT", "ATTEMPT", "BY", ""), *rows])


def event_row(event: TaskEvent, names: dict[str, str]) -> tuple[str, ...]:
    error = as_mapping(as_mapping(event.data).get("error"))
    summary = event_summary(event, error, can_see_payload=True)
    name = str(EVENT_NAMES.get(event.kind, one_line(event.kind, 20)))
    return cell(event.ts), name, str(event.attempt), names[event.actor], summary


def traceback_of(task: Task) -> str:
    return printable(redact_text(str(as_mapping(task.last_error).get("traceback") or "")))


@command(
    "events", "Show the latest events of one task or of all; -f follows.",
    option("id", nargs="?", metavar="ID", help="only of this task"),
    option("-n", "--limit", type=int, default=20, metavar="N", help="the newest N first (default: 20)"),
    option("-f", "--follow", action="store_true", help="go on with new ones until Ctrl-C"),
)  # fmt: skip
def events(context: Context) -> Exit:
    stored: QuerySet[TaskEvent] = TaskEvent.objects.using(context.using).all()
    if context["id"]:
        stored = stored.filter(task_id=records.one_id(context, context["id"]))
    latest, last = latest_of(context, stored)
    print_events(context, latest)
    if not latest:
        context.output.say("Nothing has happened yet.")
    for page in new_pages(stored, latest, last) if context["follow"] else ():
        print_events(context, page)
        context.output.stdout.flush()
    return Exit.OK if latest else Exit.NOT_FOUND


def latest_of(context: Context, stored: QuerySet[TaskEvent]) -> tuple[list[TaskEvent], int]:
    """The newest, oldest first, and the number of the last of all."""
    limit = max(context["limit"], 0)
    if context["id"]:
        return read_rows(stored.order_by("-id")[:limit])[::-1], engine_for(context.using).last_event_id()
    return statistics.newest_events(limit, context.using)


def new_pages(stored: QuerySet[TaskEvent], shown: Sequence[TaskEvent], last: int) -> Iterator[Sequence[TaskEvent]]:
    """Each event once, also one whose transaction took longer than those after it."""
    seen = deque((event.pk for event in shown), maxlen=2 * LATE + FOLLOW_PAGE)
    floor = last
    while True:
        page = read_rows(stored.filter(pk__gt=floor).order_by("id")[: LATE + FOLLOW_PAGE])
        fresh = [event for event in page if event.pk not in seen]
        seen.extend(event.pk for event in fresh)
        last = max([last, *(event.pk for event in fresh)])
        floor = max(floor, last - LATE)
        yield fresh
        if len(page) < LATE + FOLLOW_PAGE:
            time.sleep(POLL_SECONDS)


def print_events(context: Context, page: Sequence[TaskEvent]) -> None:
    for event in page:
        moment, name, attempt, actor, summary = event_row(event, {event.actor: one_line(event.actor, 60)})
        line = f"{moment}  {short_id(event.task_id)}  {name:<20}  attempt {attempt}  {actor}  {summary}".rstrip()
        context.output.answer(records.event_record(event), line)


@command(
    "export", "Tasks with calls, results and events as JSON lines, the oldest first.", records.WORDS,
    option("--raw", action="store_true", help="as it is stored: secrets are not hidden"),
)  # fmt: skip
def export(context: Context) -> Exit:
    """Export the oldest first, so that a second export begins as the first did."""
    total = context.output.count(exported(context), "exported")
    context.output.say(f"{counted(total)} exported.")
    return Exit.OK if total else Exit.NOT_FOUND


def exported(context: Context) -> Iterator[int]:
    for page in walk(records.read_query(context), context.using, size=EXPORT_PAGE):
        for record in export_records(context, page):
            context.output.record(record)
        yield len(page)


def export_records(context: Context, ids: Sequence[UUID]) -> Iterator[dict[str, Any]]:
    raw, now = context["raw"], context.scope.now
    stored = read_rows(TaskResult.objects.using(context.using).filter(pk__in=ids))
    results = {each.task_id: each.result for each in stored}
    histories: dict[UUID, list[TaskEvent]] = defaultdict(list)
    for event in read_rows(TaskEvent.objects.using(context.using).filter(task_id__in=ids).order_by("id")):
        histories[event.task_id].append(event)
    policy = ("unique_key", "backoff", "timeout", "interval", "slot", "parent_id")
    for task in records.read_tasks(context, ids):
        yield {
            **records.task_record(task, now),
            **{name: getattr(task, name) for name in policy},
            **records.payload_record(task, raw=raw),
            **({"error": task.last_error} if raw else {}),
            "result": records.shown(results.get(task.pk), raw=raw),
            "events": [records.event_record(event, raw=raw) for event in histories[task.pk]],
        }
