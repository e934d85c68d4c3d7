"""Tasks on the command line: found by words and ids, printed as rows and as JSON, with secrets hidden."""

import sys
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any
from uuid import UUID

from django.db.models import QuerySet

from ..display.events import as_mapping
from ..display.formatting import one_line
from ..display.redact import redact_value
from ..display.states import error_line, task_state, timing
from ..models import Task, TaskEvent
from ..rules.names import short_id, short_name, time_of
from ..rules.redact import redact_text
from ..selection.grammar import Query, ids_beginning_with, parse_arguments
from ..selection.matching import walk
from ..taskqueue.reading import read_row, read_rows, unreadable_columns
from .output import cell
from .subcommand import CliError, Context, Exit, option

MAX_CANDIDATES = 5  # the number of tasks that an error names if the digits of an id fit several
PLAIN = (
    "queue", "priority", "backend", "attempts", "refunds", "max_attempts", "eta", "expires_at", "deadline_at",
    "unique_until", "created_at", "started_at", "last_attempt_at", "finished_at", "run_id", "batch", "waits_for",
    "fingerprint",
)  # fmt: skip
"""Columns that a record shows under their own names."""

LIST_COLUMNS = (*PLAIN, "id", "func_path", "status", "locked_by", "last_error", "retry_of_id", "follows_id")
HEADINGS = ("ID", "STATUS", "TASK", "QUEUE", "ATTEMPTS", "ENQUEUED", "TIME", "LAST ERROR")
ID = option("id", metavar="ID", help="the task's id, or its first digits")
WORDS = option(
    "words",
    nargs="*",
    metavar="WORD",
    help="ids or their beginnings, or words such as status:failed queue:emails error:Timeout since:1h; "
    "- reads them from stdin",
)


def read_query(context: Context) -> Query:
    words: Sequence[str] = context["words"]
    if list(words) == ["-"]:
        words = sys.stdin.read().split()
    query = parse_arguments(words)
    if query.problems:
        raise CliError("\n".join(query.problems))
    return query


def newest(context: Context, query: Query, limit: int) -> Iterator[list[UUID]]:
    """Pages of the newest tasks, `limit` in all; 0 means all."""
    left, empty = limit or sys.maxsize, 0
    for page in walk(query, context.using, newest_first=True, size=min(limit or 500, 500)):
        if not page:
            empty += 1
            context.output.progress(f"searching further back … {empty}")
        yield page[:left]
        left -= len(page)
        if left <= 0:
            break


def read_tasks(context: Context, ids: Sequence[UUID], columns: Sequence[str] = ()) -> list[Task]:
    """Return tasks in the order of the ids, even those that cannot be read in full."""
    tasks: QuerySet[Task] = Task.objects.using(context.using).filter(pk__in=ids)
    found = {task.pk: task for task in read_rows(tasks.only(*columns) if columns else tasks, columns)}
    return [found[task_id] for task_id in ids if task_id in found]


def one_task(context: Context) -> Task:
    """The task whose id begins as given."""
    task: Task | None = read_row(Task.objects.using(context.using), one_id(context, context["id"]))
    if task is None:
        raise CliError(f"Task {one_line(context['id'], 40)} is gone.", Exit.NOT_FOUND)
    return task


def one_id(context: Context, text: str) -> UUID:
    id_range = ids_beginning_with(text.removeprefix("id:"))
    if id_range is None:
        raise CliError(f"“{one_line(text, 60)}” is not an id: give its first digits, at least four.")
    found = Task.objects.using(context.using).filter(pk__gte=id_range[0], pk__lte=id_range[1]).order_by("pk")
    ids: list[UUID] = list(found.values_list("pk", flat=True)[: MAX_CANDIDATES + 1])
    if not ids:
        raise CliError(f"No task has an id that begins with {one_line(text, 40)}.", Exit.NOT_FOUND)
    if len(ids) > 1:
        raise CliError(f"Several tasks have an id that begins so. Give more of it:\n{candidates(context, ids)}")
    return ids[0]


def candidates(context: Context, ids: Sequence[UUID]) -> str:
    tasks = Task.objects.using(context.using).filter(pk__in=ids[:MAX_CANDIDATES]).order_by("pk")
    lines = [
        f"  {pk}  {status}  {short_name(path)}" for pk, status, path in tasks.values_list("pk", "status", "func_path")
    ]
    return "\n".join(lines + (["  …"] if len(ids) > MAX_CANDIDATES else []))


def task_row(task: Task, now: datetime) -> tuple[str, ...]:
    return (
        short_id(task.pk),
        task_state(task, now).name,
        one_line(short_name(task.func_path), 60),
        one_line(task.queue, 64),
        f"{task.spent}/{task.max_attempts}",
        cell(time_of(task.pk)),
        timing(task, now),
        error_line(as_mapping(task.last_error), 120),
    )


def task_record(task: Task, now: datetime) -> dict[str, Any]:
    """Return a task as a record, without its payload."""
    error = as_mapping(task.last_error)
    return {
        "id": task.pk,
        "task": task.func_path,
        "status": task.status,
        "shown_as": task_state(task, now).name,
        **{name: getattr(task, name) for name in PLAIN},
        "worker": task.locked_by,
        "retry_of": task.retry_of_id,
        "follows": task.follows_id,
        "error": error_record(error) if error else None,
        **({"unreadable": unreadable_columns(task)} if unreadable_columns(task) else {}),
    }


def error_record(error: Mapping[str, Any]) -> dict[str, Any]:
    message = redact_text(str(error.get("message") or ""))
    return {"exception": error.get("exception"), "code": error.get("code"), "message": message}


def shown(value: Any, *, raw: bool = False) -> Any:
    """Return a stored value; without its secrets, unless it is wanted raw."""
    return value if raw else redact_value("", value, None)


def payload_record(task: Task, *, raw: bool = False) -> dict[str, Any]:
    return {name: shown(getattr(task, name), raw=raw) for name in ("args", "kwargs", "metadata", "progress")}


def event_record(event: TaskEvent, *, raw: bool = False) -> dict[str, Any]:
    columns = {name: getattr(event, name) for name in ("id", "task_id", "kind", "ts", "attempt", "actor")}
    return {**columns, "data": shown(event.data, raw=raw)}
