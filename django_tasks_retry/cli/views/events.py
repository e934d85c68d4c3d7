from __future__ import annotations

import argparse
import time
from collections import deque
from collections.abc import Iterator, Sequence

from django.db.models import QuerySet

from ...display.events import EVENT_NAMES, as_mapping, event_summary
from ...display.formatting import one_line
from ...display.reading import read_rows
from ...models import TaskEvent
from ...rules.names import short_id
from ...taskqueue.engines import engine_for
from ...taskqueue.operator import summaries
from ..exit_codes import Exit
from ..records import event_record, local
from ..selecting import one_id
from ..subcommand import Context, Subcommand

POLL_SECONDS = 1.0
LATE = 1000
"""Events that may commit after others with a higher number, and are looked for again."""

PAGE = 500


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("id", nargs="?", metavar="ID", help="only of this task")
    parser.add_argument("-n", "--limit", type=int, default=20, metavar="N", help="the newest N first (default: 20)")
    parser.add_argument("-f", "--follow", action="store_true", help="go on with new ones until Ctrl-C")


def run(context: Context) -> Exit:
    events: QuerySet[TaskEvent] = TaskEvent.objects.using(context.using).all()
    if context["id"]:
        events = events.filter(task_id=one_id(context, context["id"]))
    newest, last = newest_of(context, events)
    show(context, newest)
    if not newest:
        context.output.say("Nothing has happened yet.")
    for page in new_pages(events, newest, last) if context["follow"] else ():
        show(context, page)
        context.output.stdout.flush()
    return Exit.OK if newest else Exit.NOT_FOUND


def newest_of(context: Context, events: QuerySet[TaskEvent]) -> tuple[list[TaskEvent], int]:
    """The newest, oldest first, and the number of the last of all."""
    limit = max(context["limit"], 0)
    if context["id"]:
        return read_rows(events.order_by("-id")[:limit])[::-1], engine_for(context.using).last_event_id()
    return summaries.newest_events(limit, context.using)


def new_pages(events: QuerySet[TaskEvent], shown: Sequence[TaskEvent], last: int) -> Iterator[Sequence[TaskEvent]]:
    """Each event once, also one whose transaction took longer than those after it."""
    seen = deque((event.pk for event in shown), maxlen=2 * LATE + PAGE)
    floor = last
    while True:
        page = read_rows(events.filter(pk__gt=floor).order_by("id")[: LATE + PAGE])
        fresh = [event for event in page if event.pk not in seen]
        seen.extend(event.pk for event in fresh)
        last = max([last, *(event.pk for event in fresh)])
        floor = max(floor, last - LATE)
        yield fresh
        if len(page) < LATE + PAGE:
            time.sleep(POLL_SECONDS)


def show(context: Context, events: Sequence[TaskEvent]) -> None:
    for event in events:
        if context.output.as_json:
            context.output.record(event_record(event))
        else:
            context.output.line(event_line(event))


def event_line(event: TaskEvent) -> str:
    error = as_mapping(as_mapping(event.data).get("error"))
    name, summary = EVENT_NAMES.get(event.kind, event.kind), event_summary(event, error, can_see_payload=True)
    head = f"{local(event.ts)}  {short_id(event.task_id)}  {one_line(name, 20):<20}  attempt {event.attempt}"
    return f"{head}  {one_line(event.actor, 60)}  {summary}".rstrip()


COMMAND = Subcommand("events", "What happened last, to one task or to all; -f goes on.", run, add_arguments)
