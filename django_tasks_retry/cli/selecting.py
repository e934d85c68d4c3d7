"""From the words of a command line to tasks."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence
from uuid import UUID

from django.db.models import QuerySet

from ..display.formatting import format_number, one_line
from ..display.reading import read_row, read_rows
from ..models import Schedule, Task
from ..rules.names import short_name
from ..selection.grammar import Query, ids_beginning_with, parse_arguments
from ..selection.walk import walk
from .exit_codes import CliError, Exit
from .subcommand import Context

MAX_CANDIDATES = 5
"""Tasks that are named where an id is not long enough."""


def add_words(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
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


def read_narrow_query(context: Context) -> Query:
    """One that means some tasks: nobody means all of them by saying nothing."""
    query = read_query(context)
    if query.is_empty:
        raise CliError("Say which tasks: ids, or words such as status:failed queue:emails since:1h.")
    return query


def newest(context: Context, query: Query, limit: int) -> Iterator[list[UUID]]:
    """Pages of the newest tasks, `limit` in all; 0 means all."""
    left, looked = limit or sys.maxsize, 0
    for page in walk(query, context.using, newest_first=True, size=min(limit or 500, 500)):
        if not page:
            looked += 1
            context.output.progress(f"looking further back … {looked}")
        yield page[:left]
        left -= len(page)
        if left <= 0:
            break
    context.output.progress("", is_last=True)


def read_tasks(context: Context, ids: Sequence[UUID], columns: Sequence[str] = ()) -> list[Task]:
    """In the order of the ids, whatever their rows hold."""
    tasks: QuerySet[Task] = Task.objects.using(context.using).filter(pk__in=ids)
    found = {task.pk: task for task in read_rows(tasks.only(*columns) if columns else tasks, columns)}
    return [found[task_id] for task_id in ids if task_id in found]


def one_task(context: Context, text: str) -> Task:
    """The task whose id begins so."""
    task: Task | None = read_row(Task.objects.using(context.using), one_id(context, text))
    if task is None:
        raise CliError(f"Task {one_line(text, 40)} is gone.", Exit.NOT_FOUND)
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


def check_schedule(context: Context) -> None:
    if not Schedule.objects.using(context.using).filter(backend=context.backend, name=context["name"]).exists():
        raise CliError(f"There is no schedule {one_line(context['name'], 128)}.", Exit.NOT_FOUND)


def counted(count: int, noun: str = "task") -> str:
    return f"{format_number(count)} {noun}{'' if count == 1 else 's'}"
