"""The statements by which PostgreSQL takes new tasks, and what they are given."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from ...models import OWN_COLUMNS, Task
from ...rules.payload import dump
from ..database import as_text
from ..producer.new_tasks import NEW_COLUMNS, has_own
from .statements import read_sql

TYPES = {
    "UUIDField": "uuid", "CharField": "text", "JSONField": "jsonb", "PositiveIntegerField": "int",
    "SmallIntegerField": "smallint", "FloatField": "float8", "DateTimeField": "timestamptz",
}  # fmt: skip
FIELDS = {field.attname: getattr(field, "target_field", field) for field in Task._meta.concrete_fields}
JSON_COLUMNS = [name for name in NEW_COLUMNS if FIELDS[name].get_internal_type() == "JSONField"]

# Columns that a new row takes as they are given; its eta and its slot are computed.
PLAIN = [name for name in NEW_COLUMNS if name not in {"eta", "slot"}]
RETURNED = ("id", "eta", "slot", "created_at", "updated_at", *OWN_COLUMNS)


def listed(columns: Iterable[str], form: str = "{}") -> str:
    return ", ".join(form.format(column) for column in columns)


def typed(columns: Iterable[str], form: str = "{} {}") -> list[str]:
    return [form.format(name, TYPES[FIELDS[name].get_internal_type()]) for name in columns]


ASKED = {"asked": listed(NEW_COLUMNS), "asked_types": ", ".join(typed(NEW_COLUMNS)), "plain": listed(PLAIN)}
ONE = {"plain": listed(PLAIN), "values": listed(PLAIN, "%({})s")}

# Not in every statement: it would cost each plain task a speculative insertion.
LEAVE_TAKEN_KEYS = (
    "ON CONFLICT (queue, unique_key) WHERE status IN ('PENDING', 'RUNNING') AND unique_key IS NOT NULL DO NOTHING"
)
# Neither are these: who asks for none of them pays for none of them.
NO_OWN = dict.fromkeys(["own", "own_types", "own_asked", "own_values"], "")
EXPIRY = "COALESCE({0}, django_tasks_retry_now() + {1} * interval '1 second')"
OWN = {
    "own": f", {listed(OWN_COLUMNS)}",
    "own_types": f", {', '.join(typed(OWN_COLUMNS))}, expires_in float8",
    "own_asked": f", {listed(OWN_COLUMNS)}, expires_in",
}
OWN_OF_MANY = OWN | {
    "own_values": f", {listed(OWN_COLUMNS)}".replace("expires_at", EXPIRY).format("expires_at", "expires_in")
}
OWN_OF_ONE = OWN | {
    "own_values": ", "
    + ", ".join(typed(OWN_COLUMNS, "%({})s::{}")).replace(
        "%(expires_at)s::timestamptz", EXPIRY.format("%(expires_at)s::timestamptz", "%(expires_in)s::float8")
    )
}
# By whether keys may be taken, and whether there are columns that few tasks have.
ENQUEUE_ONE = {
    (unique, own): read_sql(
        "enqueue_one", **ONE, **(OWN_OF_ONE if own else NO_OWN), on_conflict=LEAVE_TAKEN_KEYS if unique else ""
    )
    for unique in (True, False)
    for own in (True, False)
}
ENQUEUE = {
    (unique, own): read_sql(
        "enqueue", **ASKED, **(OWN_OF_MANY if own else NO_OWN), on_conflict=LEAVE_TAKEN_KEYS if unique else "", limit=""
    )
    for unique in (True, False)
    for own in (True, False)
}
# Where all will be there, due at once or as they say, one answer tells of all.
ENQUEUE_PLAIN = read_sql("enqueue", **ASKED, **NO_OWN, on_conflict="", limit="LIMIT 1")
GIVEN = (*NEW_COLUMNS, "due_in")
GIVEN_OWN = (*GIVEN, *OWN_COLUMNS, "expires_in")
BLANK = dict.fromkeys(GIVEN_OWN) | {"due_in": 0.0}


def statement(tasks: Sequence[Task]) -> tuple[str, dict[str, Any], bool]:
    """What to run for these tasks, with what; and whether its one row tells of all of them."""
    unique, own = any(task.unique_key for task in tasks), any(map(has_own, tasks))
    alike = not unique and not own and not any(task.due_in for task in tasks)
    if len(tasks) == 1:
        return ENQUEUE_ONE[unique, own], parameters_of(tasks[0], own=own), alike
    sql = ENQUEUE_PLAIN if alike else ENQUEUE[unique, own]
    return sql, {"asked": as_text([given(task, GIVEN_OWN if own else GIVEN) for task in tasks])}, alike


def given(task: Task, names: Sequence[str]) -> dict[str, Any]:
    """What is known of a task before it is written. What it leaves out is NULL."""
    values = vars(task)
    return {name: value for name in names if (value := values.get(name)) is not None}


def parameters_of(task: Task, *, own: bool) -> dict[str, Any]:
    values = given(task, GIVEN_OWN if own else GIVEN)
    return BLANK | values | {name: dump(values[name]) for name in JSON_COLUMNS if name in values}
