"""Tasks and reports as the parameters of PostgreSQL's statements.

New tasks: a chunk is one statement, and the next one is checked while the server is at it.

Values that all tasks share come once, others as arrays. A column that is NULL for all of them is not named, so a plain
task pays for no option of others. As one JSON text the same rows took client and server twice the time.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import lru_cache
from itertools import cycle
from operator import itemgetter
from types import NoneType
from typing import Any, NamedTuple

from django.db import connections
from django.db.models import QuerySet

from ...guard.abilities import abilities_of
from ...models import OWN_COLUMNS, Task
from ...rules.payload import dump
from ...rules.status import Status
from ...rules.transitions import COMPLETE
from ..database import as_array, as_text, cursor_on, fetch
from ..new_tasks import CHUNK, NEW_COLUMNS, SPANS, as_dated, as_stored, has_end
from ..report import Report
from .postgresql_server import PostgreSQLServer
from .statements import StoredStatement

TYPES = {
    "UUIDField": "uuid", "CharField": "text", "JSONField": "jsonb", "PositiveIntegerField": "int",
    "SmallIntegerField": "smallint", "FloatField": "float8", "DateTimeField": "timestamptz",
}  # fmt: skip
FIELDS = {field.attname: getattr(field, "target_field", field) for field in Task._meta.concrete_fields}
ASKED = (*NEW_COLUMNS, *OWN_COLUMNS, "due_in", *SPANS)
TYPE = {name: TYPES[FIELDS[name].get_internal_type()] if name in FIELDS else "float8" for name in ASKED}
TIMES = ("eta", "slot", "due_in", *SPANS, *SPANS.values())
RETURNED_ALSO = tuple(name for name in OWN_COLUMNS if TYPE[name] != "jsonb")
JSON_COLUMNS = [name for name in ASKED if TYPE[name] == "jsonb"]
EMPTY = {list: "[]", dict: "{}", NoneType: None}
# What most tasks are given stands in the text: each parameter costs the client more than a microsecond.
USUAL = {"args": "[]", "kwargs": "{}", "metadata": "{}", "lane": "", "priority": 0, "interval": 0}
PLAIN = {"func_path", "backend", "max_attempts", "timeout", "queue"}
"""The columns that every plain call fills, beside the id and USUAL."""
RETURNED = ("id", "eta", "slot", "created_at", "updated_at")

ENQUEUED = tuple(name for name in NEW_COLUMNS if name != "unique_key")
"""The columns of a task that is written alone, as enqueue.sql takes them."""
ENQUEUE_ONE = StoredStatement("enqueue", "timestamptz")

# The two statements that are no files: their columns, and where each value comes from, depend on the calls.
ENQUEUE = """\
INSERT -- Enqueue
INTO django_tasks_retry_task ({columns}, status, attempts, refunds, created_at, updated_at)
{rows}
{on_conflict}
RETURNING {returned}"""
# The same if all will be stored, due at once or as they say. One answer tells of all.
ENQUEUE_ALIKE = """\
WITH -- Enqueue alike
written AS (
    INSERT INTO django_tasks_retry_task ({columns}, status, attempts, refunds, created_at, updated_at)
    {rows}
    RETURNING created_at
)
SELECT created_at FROM written LIMIT 1"""
# Not in every statement: it would cost each plain task a speculative insertion.
LEAVE_TAKEN_KEYS = (
    "ON CONFLICT (queue, unique_key) WHERE status IN ('PENDING', 'RUNNING') AND unique_key IS NOT NULL DO NOTHING"
)
CLOCK = "django_tasks_retry_now()"
LOCK_KEY = "SELECT pg_advisory_xact_lock(hashtextextended(%(key)s, 0))"
values_of = itemgetter(*ASKED)
enqueued_of = itemgetter(*ENQUEUED)
JSON_PLACES = [place for place, name in enumerate(ENQUEUED) if TYPE[name] == "jsonb"]
NOTHING = "null"  # the result of most functions: SQL's NULL, as the ORM writes it


class PostgreSQLInsert(PostgreSQLServer):
    def writes_at_once(self, tasks: Sequence[Task]) -> bool:
        return len(tasks) <= CHUNK and not any(task.unique_key for task in tasks)

    def insert(self, tasks: Sequence[Task]) -> list[Task]:
        if len(tasks) == 1 and is_usual(tasks[0]):
            return self.stored(tasks, self.call(ENQUEUE_ONE, {"row": row_text(tasks[0])}), alike=True)
        sql, parameters, alike = statement(tasks)
        return self.stored(tasks, fetch(sql, parameters, self.using), alike=alike)

    def insert_each(self, chunks: Iterable[Sequence[Task]]) -> Iterator[list[Task]]:
        with pipelined(self.using), cursor_on(self.using) as one, cursor_on(self.using) as other:
            before: tuple[Any, Sequence[Task], bool] | None = None
            for cursor, chunk in zip(cycle([one, other]), chunks, strict=False):
                sql, parameters, alike = statement(chunk)
                cursor.execute(sql, parameters)
                if before is not None:
                    yield self.answer(*before)
                before = cursor, chunk, alike
            if before is not None:
                yield self.answer(*before)

    def answer(self, cursor: Any, tasks: Sequence[Task], alike: bool) -> list[Task]:  # noqa: FBT001
        return self.stored(tasks, cursor.fetchall(), alike=alike)

    def stored(self, tasks: Sequence[Task], rows: Sequence[tuple[Any, ...]], *, alike: bool) -> list[Task]:
        """The tasks as stored: all at the moment of the one row, or each with the values of its row."""
        if alike:
            [[moment]] = rows
            return [as_dated(task, moment, self.using) for task in tasks]
        by_id = {row[0]: dict(zip((*RETURNED, *RETURNED_ALSO), row, strict=False)) for row in rows}
        return [as_stored(task, by_id[task.id], self.using) for task in tasks if task.id in by_id]

    def holders(self, tasks: Sequence[Task], *, settles: bool = False) -> Iterable[Task]:
        keys = {"queue": [task.queue for task in tasks], "unique_key": [task.unique_key for task in tasks]}
        ids = [row[0] for row in self.fetch("holders", keys)]
        holders: QuerySet[Task] = Task.objects.using(self.using).unfinished().filter(pk__in=ids)
        if settles and not abilities_of(self.using).advisory_locks:
            return holders.order_by("pk").select_for_update(no_key=True)
        return holders

    def lock_key(self, queue: str, key: str) -> None:
        if abilities_of(self.using).advisory_locks:
            fetch(LOCK_KEY, {"key": f"django_tasks_retry {queue} {key}"}, self.using)


@contextmanager
def pipelined(using: str) -> Iterator[None]:
    """Send statements without waiting for the answers to earlier ones, if the driver's library can."""
    from psycopg import Pipeline

    connection = connections[using]
    if not Pipeline.is_supported():
        yield
        return
    connection.ensure_connection()
    with connection.wrap_database_errors, connection.connection.pipeline():
        yield


def listed(columns: Iterable[str], form: str = "{}") -> str:
    return ", ".join(form.format(column) for column in columns)


def is_usual(task: Task) -> bool:
    """Return whether it has none of the options that a conflict, or the server's clock, settles."""
    return not (task.unique_key or task.due_in or task.follows_id or task.on_failure or has_end(task))


def row_text(task: Task) -> str:
    """The row of enqueue.sql."""
    values = list(enqueued_of(vars(task)))
    for place in JSON_PLACES:
        value = values[place]
        values[place] = dump(value) if value else EMPTY[type(value)]
    return as_array(values)


class Shape(NamedTuple):
    """The columns that are given once for all tasks, and those for each: a statement depends on both."""

    usual: tuple[str, ...]
    common: tuple[str, ...]
    each: tuple[str, ...]
    begin_runs: bool  # each is the first task of its own run
    repeat: bool

    def has(self, *names: str) -> bool:
        return not {*self.common, *self.each}.isdisjoint(names)

    @property
    def is_alike(self) -> bool:
        """Return whether one row describes all tasks: all are stored, and only the clock's time is computed."""
        return not self.has("unique_key", "due_in", *SPANS, *OWN_COLUMNS)


def statement(tasks: Sequence[Task]) -> tuple[str, dict[str, Any], bool]:
    """Return the statement for these tasks, its parameters, and whether its one row describes all of them."""
    columns = columns_of(tasks)
    begin_runs, repeat = columns["run_id"] == columns["id"], any(columns["interval"])
    if begin_runs:
        del columns["run_id"]
    common = {name: values[0] for name, values in columns.items() if values.count(values[0]) == len(values)}
    usual = tuple(name for name, value in USUAL.items() if common.get(name) == value)
    given = {name: value for name, value in common.items() if value is not None and name not in usual}
    each = {name: array_of(name, values) for name, values in columns.items() if name not in common}
    shape = Shape(usual, tuple(given), tuple(each), begin_runs, repeat)
    return sql_for(shape), given | each, shape.is_alike


def examples() -> dict[str, str]:
    """The statement that two plain calls send."""
    shared = tuple(name for name in ASKED if name in PLAIN)
    return {"enqueue_alike": sql_for(Shape(tuple(USUAL), shared, ("id",), begin_runs=True, repeat=False))}


def columns_of(tasks: Sequence[Task]) -> dict[str, Sequence[Any]]:
    """Each column of all tasks. JSON as texts: to Python, 1 and True are the same."""
    rows = [values_of(vars(task)) for task in tasks]
    columns: dict[str, Sequence[Any]] = dict(zip(ASKED, zip(*rows, strict=True), strict=True))
    for name in JSON_COLUMNS:
        columns[name] = [dump(value) if value else EMPTY[type(value)] for value in columns[name]]
    columns["due_in"] = [seconds or None for seconds in columns["due_in"]]
    return columns


def array_of(name: str, values: Sequence[Any]) -> str:
    return as_array([value and value.hex for value in values] if TYPE[name] == "uuid" else values)


@lru_cache(maxsize=256)
def sql_for(shape: Shape) -> str:
    given = {name: f"'{USUAL[name]}'::{TYPE[name]}" for name in shape.usual}
    given |= {name: f"%({name})s::{TYPE[name]}" for name in shape.common} | {name: name for name in shape.each}
    values = {name: value for name, value in given.items() if name not in TIMES} | times(given, shape)
    if shape.begin_runs:
        values["run_id"] = given["id"]
    row = f"{listed(values.values())}, 'PENDING', 0, 0, {CLOCK}, {CLOCK}"
    parts = {"columns": listed(values), "rows": f"VALUES ({row})"}
    if shape.each:
        arrays = listed(f"%({name})s::{TYPE[name]}[]" for name in shape.each)
        # Without ORDER BY: a function's rows come as they stand in the arrays.
        parts["rows"] = f"SELECT {row} FROM unnest({arrays}) AS asked ({listed(shape.each)})"  # noqa: S608 - our names
        if shape.is_alike:
            return ENQUEUE_ALIKE.format(**parts)
    parts["on_conflict"] = LEAVE_TAKEN_KEYS if shape.has("unique_key") else ""
    own = RETURNED_ALSO if shape.has(*OWN_COLUMNS, *SPANS) else ()
    return ENQUEUE.format(**parts, returned="created_at" if shape.is_alike else listed((*RETURNED, *own)))


def times(given: Mapping[str, str], shape: Shape) -> dict[str, str]:
    """Return SQL for eta and expiry, by the clock of the statement; a repeating task is due at its first slot."""
    due = first_known(given.get("eta"), from_now(given.get("due_in")), CLOCK)
    first_slot = f"CASE WHEN {given['interval']} > 0 THEN {due} END" if shape.repeat else None
    deadlines = [given.get("deadline_at"), from_now(given.get("deadline_in"))]
    expiries = [given.get("expires_at"), from_now(given.get("expires_in"))]
    values = {
        "eta": due,
        "slot": first_known(given.get("slot"), first_slot),
        "expires_at": first_known(*expiries, *deadlines, by="LEAST"),
        "deadline_at": first_known(*deadlines, by="LEAST"),
        "unique_until": from_now(given.get("unique_for")),
    }
    return {name: value for name, value in values.items() if value}


def from_now(seconds: str | None) -> str | None:
    return seconds and f"{CLOCK} + {seconds} * interval '1 second'"


def first_known(*moments: str | None, by: str = "COALESCE") -> str:
    """Return SQL for the first, or the least, that is not NULL; NULL if no task has any."""
    known = list(filter(None, moments))
    return f"{by}({listed(known)})" if len(known) > 1 else "".join(known)


# Reports, for finish.sql; for complete.sql, if all of them are plain completions


def are_plain(reports: Sequence[Report]) -> bool:
    """Return whether each is a completion by the one worker that holds all of their leases."""
    worker = reports[0].lease.locked_by
    return all(
        report.move is COMPLETE
        and report.lease.locked_by == report.actor == worker
        and report.moved_by == report.lease.signature
        and report.next_id is None
        and not any(report.data)
        for report in reports
    )


def plain_parameters(reports: Sequence[Report]) -> dict[str, Any]:
    leases = [report.lease for report in reports]
    return {
        "worker": leases[0].locked_by,
        "ids": as_array([lease.id.hex for lease in leases]),
        "attempts": as_array([lease.attempts for lease in leases]),
        "results": as_array([None if report.result == NOTHING else report.result for report in reports]),
    }


def any_parameters(reports: Sequence[Report]) -> dict[str, Any]:
    return {"reports": as_text([row_of(report) for report in reports]), "events": as_text(list(event_rows(reports)))}


def row_of(report: Report) -> dict[str, Any]:
    """Return the columns of a report. Absent ones are NULL: most reports are completions that need few."""
    lease = report.lease
    row: dict[str, Any] = {
        "id": lease.id.hex,
        "worker": lease.locked_by,
        "attempt": lease.attempts,
        "moved_by": report.moved_by,
        "status": report.move.target,
    }
    if report.result is not None and report.result != NOTHING:
        row["result"] = report.result
    if report.next_id is not None:
        row["next_id"] = report.next_id.hex
    if report.move.target is Status.PENDING:
        row |= {"delay": report.delay, "crash": report.crash, "refund": report.move.refunds}
    if report.waits_for is not None:
        row["waits_for"] = report.waits_for
    if report.error is not None:
        row |= {"error": report.error, "fingerprint": report.fingerprint}
    return row


def event_rows(reports: Sequence[Report]) -> Iterator[dict[str, Any]]:
    """Yield event rows without defaults: the actor is the worker unless given, and most events hold no data."""
    for n, report in enumerate(reports):
        for kind, data in report.events:
            row: dict[str, Any] = {"of": n, "kind": kind}
            if report.actor != report.lease.locked_by:
                row["actor"] = report.actor
            if data:
                row["data"] = data
            yield row
