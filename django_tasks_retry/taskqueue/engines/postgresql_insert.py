"""The statement by which PostgreSQL takes new tasks: what they have in common comes once, what differs as arrays.

A column that is NULL for all of them is not named, so a plain task pays for no option of others. As one JSON text the
same rows took client and server twice the time.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from operator import itemgetter
from types import NoneType
from typing import Any, NamedTuple

from ...models import OWN_COLUMNS, Task
from ...rules.payload import dump
from ..database import as_array
from ..producer.new_tasks import NEW_COLUMNS
from .statements import read_template

TYPES = {
    "UUIDField": "uuid", "CharField": "text", "JSONField": "jsonb", "PositiveIntegerField": "int",
    "SmallIntegerField": "smallint", "FloatField": "float8", "DateTimeField": "timestamptz",
}  # fmt: skip
FIELDS = {field.attname: getattr(field, "target_field", field) for field in Task._meta.concrete_fields}
ASKED = (*NEW_COLUMNS, *OWN_COLUMNS, "due_in", "expires_in")
TYPE = {name: TYPES[FIELDS[name].get_internal_type()] if name in FIELDS else "float8" for name in ASKED}
TIMES = ("eta", "slot", "expires_at", "due_in", "expires_in")
JSON_COLUMNS = [name for name in ASKED if TYPE[name] == "jsonb"]
EMPTY = {list: "[]", dict: "{}", NoneType: None}
# What most tasks are given stands in the text: each parameter costs the client more than a microsecond.
USUAL = {"args": "[]", "kwargs": "{}", "metadata": "{}", "lane": "", "priority": 0, "interval": 0}
RETURNED = ("id", "eta", "slot", "created_at", "updated_at")

ENQUEUE, ENQUEUE_ALIKE = read_template("enqueue"), read_template("enqueue_alike")
# Not in every statement: it would cost each plain task a speculative insertion.
LEAVE_TAKEN_KEYS = (
    "ON CONFLICT (queue, unique_key) WHERE status IN ('PENDING', 'RUNNING') AND unique_key IS NOT NULL DO NOTHING"
)
CLOCK = "django_tasks_retry_now()"
values_of = itemgetter(*ASKED)


def listed(columns: Iterable[str], form: str = "{}") -> str:
    return ", ".join(form.format(column) for column in columns)


class Shape(NamedTuple):
    """What a statement depends on: which columns are given once for all tasks, and which for each."""

    usual: tuple[str, ...]
    common: tuple[str, ...]
    each: tuple[str, ...]
    begin_runs: bool
    """Each is the first task of its own run."""
    repeat: bool

    def has(self, *names: str) -> bool:
        return not {*self.common, *self.each}.isdisjoint(names)

    @property
    def is_alike(self) -> bool:
        """Whether one row tells of all: none may be missing, and no time of theirs but the clock's is computed."""
        return not self.has("unique_key", "due_in", "expires_in", *OWN_COLUMNS)


def statement(tasks: Sequence[Task]) -> tuple[str, dict[str, Any], bool]:
    """What to run for these tasks, with what; and whether its one row tells of all of them."""
    columns = columns_of(tasks)
    begin_runs, repeat = columns["run_id"] == columns["id"], any(columns["interval"])
    if begin_runs:
        del columns["run_id"]
    common = {name: values[0] for name, values in columns.items() if values.count(values[0]) == len(values)}
    given = {name: value for name, value in common.items() if value is not None}
    usual = tuple(name for name, value in USUAL.items() if given.get(name) == value)
    for name in usual:
        del given[name]
    each = {name: array_of(name, values) for name, values in columns.items() if name not in common}
    shape = Shape(usual, tuple(given), tuple(each), begin_runs, repeat)
    return sql_for(shape), given | each, shape.is_alike


def columns_of(tasks: Sequence[Task]) -> dict[str, Sequence[Any]]:
    """Each column of all tasks. JSON as texts: to Python, 1 and True are the same."""
    rows = [values_of(vars(task)) for task in tasks]
    columns: dict[str, Sequence[Any]] = dict(zip(ASKED, zip(*rows, strict=True), strict=True))
    for name in JSON_COLUMNS:
        columns[name] = [dump(value) if value else EMPTY[type(value)] for value in columns[name]]
    columns["due_in"] = [seconds or None for seconds in columns["due_in"]]
    return columns


def array_of(name: str, values: Sequence[Any]) -> str:
    if TYPE[name] == "uuid":
        return as_array([value and value.hex for value in values])
    return as_array(values)


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
            return ENQUEUE_ALIKE.substitute(parts)
    parts["on_conflict"] = LEAVE_TAKEN_KEYS if shape.has("unique_key") else ""
    own = OWN_COLUMNS if shape.has(*OWN_COLUMNS, "expires_in") else ()
    return ENQUEUE.substitute(parts, returned="created_at" if shape.is_alike else listed((*RETURNED, *own)))


def times(given: Mapping[str, str], shape: Shape) -> dict[str, str]:
    """When a task is due and until when, by the clock of the statement; a repeating one is due at its first slot."""
    due = first_known(given.get("eta"), from_now(given.get("due_in")), CLOCK)
    first_slot = f"CASE WHEN {given['interval']} > 0 THEN {due} END" if shape.repeat else None
    values = {
        "eta": due,
        "slot": first_known(given.get("slot"), first_slot),
        "expires_at": first_known(given.get("expires_at"), from_now(given.get("expires_in"))),
    }
    return {name: value for name, value in values.items() if value}


def from_now(seconds: str | None) -> str | None:
    return seconds and f"{CLOCK} + {seconds} * interval '1 second'"


def first_known(*moments: str | None) -> str:
    """The first that is not NULL; nothing where no task is given any."""
    known = list(filter(None, moments))
    return f"COALESCE({listed(known)})" if len(known) > 1 else "".join(known)
