"""The guard on SQLite: triggers for each row, for there are no others."""

from __future__ import annotations

import inspect
from collections.abc import Iterable
from functools import partial
from typing import Any, NamedTuple

from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.backends.base.operations import BaseDatabaseOperations
from django.db.models import CharField, DateTimeField, Field, FloatField, JSONField, UUIDField

from ..clock import FUNCTION
from ..models import FIXED_COLUMNS, MAX_LENGTHS
from . import conditions
from .conditions import EVENT, RESULT, STEP, TASK, exists, finished, unfinished

FLUSHING = "django_tasks_retry_flushing()"
IS_UTF8 = "django_tasks_retry_is_utf8"
FLUSH = BaseDatabaseOperations.execute_sql_flush.__code__


class Question(NamedTuple):
    """About a task, asked by a trigger of another table, through a function of the connection.

    A trigger that names another table keeps that one from being remade, as migrations do: SQLite renames no table
    while a trigger names one that is gone.
    """

    name: str
    columns: tuple[str, ...]
    where: str

    def about(self, row: str) -> str:
        return f"{self.name}({', '.join(f'{row}.{column}' for column in self.columns)})"

    @property
    def sql(self) -> str:
        given = ", ".join(f"? AS {column}" for column in self.columns)
        return f"SELECT {exists(f'{TASK} AS t, (SELECT {given}) AS asked', self.where)}"


IS_KEPT = Question("django_tasks_retry_is_kept", ("task_id",), "t.id = asked.task_id")
IS_FINISHED = Question("django_tasks_retry_is_finished", ("task_id",), f"t.id = asked.task_id AND {finished('t')}")
MAY_END = Question("django_tasks_retry_may_end", ("task_id", "status", "attempts"), conditions.may_end_so("asked", "t"))
IS_TOLD = Question(
    "django_tasks_retry_is_told", ("task_id", "kind", "attempt", "ts"), conditions.event_agrees("asked", "t")
)
IS_HELD = Question(
    "django_tasks_retry_is_held",
    ("task_id", "actor", "attempt"),
    conditions.step_is_held("asked", "t").replace("now()", f"{FUNCTION}()"),
)


def register_on_sqlite(connection: BaseDatabaseWrapper, **_: Any) -> None:
    """Receiver of `connection_created`."""
    if connection.vendor != "sqlite":
        return
    raw = connection.connection
    raw.create_function(FLUSHING.rstrip("()"), 0, is_flushing)
    raw.create_function(IS_UTF8, 1, is_utf8, deterministic=True)
    for question in (IS_KEPT, IS_FINISHED, MAY_END, IS_TOLD, IS_HELD):
        raw.create_function(question.name, len(question.columns), partial(answer, raw, question.sql))


def answer(raw: Any, sql: str, *values: Any) -> Any:
    return raw.execute(sql, values).fetchone()[0]


def is_flushing() -> bool:
    """Return whether this is Django's own flush, which empties all tables in turn. Asked only before a refusal."""
    frame = inspect.currentframe()
    while frame is not None and frame.f_code is not FLUSH:
        frame = frame.f_back
    return frame is not None


def trigger(name: str, when: str, condition: str, action: str) -> tuple[str, str]:
    condition = condition.replace("IS DISTINCT FROM", "IS NOT")  # which SQLite has known for longer
    return name, f"CREATE TRIGGER {name} {when} WHEN {condition} BEGIN {action}; END"


def refusal(name: str, when: str, refuse_if: str, message: str) -> tuple[str, str]:
    return trigger(name, f"BEFORE {when}", refuse_if, f"SELECT RAISE(ABORT, '{message}')")


def sqlite_statements() -> dict[str, str]:
    return dict([*on_tasks(), *on_results(), *on_events(), *on_steps(), *on_types()])


CLEAR = f"DELETE FROM {RESULT} WHERE task_id = NEW"  # noqa: S608 - names of our own
TAKEN = f"t.id <> NEW.id AND t.queue = NEW.queue AND t.unique_key = NEW.unique_key AND {unfinished('t')}"


GIVEN_ID = "id = NEW.id AND NEW.id > 0"
"""Before a row is written, the id that SQLite will choose reads -1: a row with that id must not pass for the same."""


def on_tasks() -> list[tuple[str, str]]:
    illegal = f"NOT {finished('OLD')} AND ({conditions.legal(FUNCTION + '()')}) IS NOT TRUE"
    no_result = f"{finished('NEW')} AND NOT {exists(f'{RESULT} AS r', conditions.result_agrees('r', 'NEW'))}"
    deleted = f"{unfinished('OLD')} AND NOT {FLUSHING}"
    fixed = ", ".join(FIXED_COLUMNS)
    too_long = " OR ".join(f"length(NEW.{column}) > {MAX_LENGTHS[column]}" for column in ("queue", "locked_by"))
    return [
        refusal("dtr_guard_insert", f"INSERT ON {TASK}", f"NOT ({conditions.FRESH})", conditions.UNFRESH),
        refusal("dtr_guard_payload", f"INSERT ON {TASK}", f"({sound_payload()}) IS NOT TRUE", conditions.UNSOUND),
        refusal("dtr_guard_call", f"UPDATE OF {fixed} ON {TASK}", conditions.REWRITTEN, conditions.FIXED),
        refusal("dtr_guard_final", f"UPDATE ON {TASK}", finished("OLD"), conditions.FINAL),
        refusal("dtr_guard_move", f"UPDATE ON {TASK}", illegal, conditions.ILLEGAL),
        refusal("dtr_guard_result", f"UPDATE ON {TASK}", no_result, conditions.NO_RESULT),
        refusal("dtr_guard_delete", f"DELETE ON {TASK}", deleted, conditions.UNFINISHED_DELETE),
        refusal("dtr_guard_texts_moved", f"UPDATE OF queue, locked_by ON {TASK}", too_long, conditions.MISTYPED),
        *against_replacing(),
    ]


def sound_payload() -> str:
    shapes = [f"json_type(NEW.{column}) = '{shape}'" for column, shape in conditions.SHAPES.items()]
    named = "json_type(NEW.backoff, '$.function') = 'text'"
    backoffs = [f"json_type(NEW.backoff, '$.{key}') IS NOT NULL" for key in conditions.EXPONENTIAL]
    backoff = f"json_type(NEW.backoff) = 'array' OR {named} OR ({' AND '.join(backoffs)})"
    size = " + ".join(f"COALESCE(length(NEW.{column}), 0)" for column in (*conditions.SHAPES, "backoff", "on_failure"))
    shapes.append(conditions.HAS_CALL_ON_FAILURE.format("json_type"))
    return " AND ".join(
        [conditions.SOUND_EXPIRY, *shapes, f"(NEW.backoff IS NULL OR {backoff})", f"{size} <= {conditions.LARGEST}"]
    )


def against_replacing() -> list[tuple[str, str]]:
    """INSERT OR REPLACE and UPDATE OR REPLACE delete what is in their way, without a trigger."""
    taken = f"(NEW.unique_key IS NOT NULL AND {exists(f'{TASK} AS t', TAKEN)})"
    same_slot = "t.schedule_id = NEW.schedule_id AND t.slot = NEW.slot"
    slot_taken = f"(NEW.schedule_id IS NOT NULL AND {exists(f'{TASK} AS t', same_slot)})"
    inserted = f"{exists(TASK, 'id = NEW.id')} OR {taken} OR {slot_taken}"
    moved = f"NEW.queue IS NOT OLD.queue AND {unfinished('NEW')} AND {taken}"
    return [
        refusal("dtr_guard_replace", f"INSERT ON {TASK}", inserted, conditions.REPLACED),
        refusal("dtr_guard_replace_moved", f"UPDATE OF queue ON {TASK}", moved, conditions.REPLACED),
    ]


def on_results() -> list[tuple[str, str]]:
    """There is no check at the end of a transaction, so a result may come before its task ends, and only then.

    One that was left beside an unfinished task stands in nobody's way: it goes with the next move.
    """
    stray = exists(RESULT, "task_id = NEW.task_id")
    left = f"{unfinished('NEW')} AND {exists(RESULT, 'task_id = NEW.id')}"
    return [
        refusal("dtr_guard_outcome_insert", f"INSERT ON {RESULT}", f"NOT {MAY_END.about('NEW')}", conditions.NO_END),
        refusal("dtr_guard_outcome", f"UPDATE ON {RESULT}", "TRUE", conditions.APPEND_ONLY),
        refusal(
            "dtr_guard_outcome_delete",
            f"DELETE ON {RESULT}",
            f"{IS_FINISHED.about('OLD')} AND NOT {FLUSHING}",
            conditions.HISTORY_DELETE,
        ),
        trigger("dtr_guard_stray", f"BEFORE INSERT ON {RESULT}", stray, f"{CLEAR}.task_id"),
        trigger("dtr_guard_left", f"AFTER UPDATE ON {TASK}", left, f"{CLEAR}.id"),
    ]


def on_events() -> list[tuple[str, str]]:
    repeats = exists(f"{EVENT} AS e", conditions.event_repeats("NEW", "e"))
    refused = f"NOT {IS_TOLD.about('NEW')} OR {repeats} OR {exists(EVENT, GIVEN_ID)}"
    kept = f"{IS_KEPT.about('OLD')} AND NOT {FLUSHING}"
    return [
        refusal("dtr_guard_event_insert", f"INSERT ON {EVENT}", refused, conditions.NO_MOVE),
        refusal("dtr_guard_event", f"UPDATE ON {EVENT}", "TRUE", conditions.APPEND_ONLY),
        refusal("dtr_guard_event_delete", f"DELETE ON {EVENT}", kept, conditions.HISTORY_DELETE),
    ]


def on_steps() -> list[tuple[str, str]]:
    replaced = exists(STEP, f"({GIVEN_ID}) OR (task_id = NEW.task_id AND name = NEW.name)")
    kept = f"{IS_KEPT.about('OLD')} AND NOT {FLUSHING}"
    return [
        refusal("dtr_guard_step_insert", f"INSERT ON {STEP}", f"NOT {IS_HELD.about('NEW')}", conditions.NOT_HELD),
        refusal("dtr_guard_step_replace", f"INSERT ON {STEP}", replaced, conditions.APPEND_ONLY),
        refusal("dtr_guard_step", f"UPDATE ON {STEP}", "TRUE", conditions.APPEND_ONLY),
        refusal("dtr_guard_step_delete", f"DELETE ON {STEP}", kept, conditions.HISTORY_DELETE),
    ]


def on_types() -> list[tuple[str, str]]:
    """Refuse values that their column would not hold on PostgreSQL: SQLite stores anything anywhere.

    Moves of tasks change so many columns that they would pay for it; the legal ones leave the call as it is.
    """
    triggers = []
    for model in conditions.guarded():
        table = model._meta.db_table
        fits = [(field.column, fits_type(field)) for field in model._meta.concrete_fields]
        triggers.append(refusal(f"dtr_type_{table}", f"INSERT ON {table}", unfit(fits), conditions.MISTYPED))
        if table not in (TASK, RESULT, EVENT, STEP):
            fits = [(column, f"NEW.{column} IS OLD.{column} OR {fit}") for column, fit in fits]
            triggers.append(
                refusal(f"dtr_type_{table}_changed", f"UPDATE ON {table}", unfit(fits), conditions.MISTYPED)
            )
    return triggers


def unfit(fits: Iterable[tuple[str | None, str]]) -> str:
    return " OR ".join(f"(NEW.{column} IS NOT NULL AND NOT ({fit}))" for column, fit in fits)


def fits_type(field: Field[Any, Any]) -> str:
    """The value is stored as the type of its column demands, and Python can read it."""
    new, kind = f"NEW.{field.column}", getattr(field, "target_field", field)
    is_text = f"typeof({new}) = 'text'"
    match kind:
        case UUIDField():
            return f"{is_text} AND length({new}) = 32 AND {new} NOT GLOB '*[^0-9a-f]*'"
        case DateTimeField():
            return f"{is_text} AND datetime({new}) IS substr({new}, 1, 19)"
        case JSONField():
            return f"{is_text} AND {IS_UTF8}(CAST({new} AS BLOB))"
        case CharField():
            in_utf8 = f"({new} NOT GLOB '*[^ -~]*' OR {IS_UTF8}(CAST({new} AS BLOB)))"
            return f"{is_text} AND length({new}) <= {kind.max_length} AND {in_utf8}"
        case FloatField():
            return f"typeof({new}) IN ('integer', 'real')"
    return f"typeof({new}) = 'integer'"


def is_utf8(value: bytes) -> bool:
    try:
        value.decode()
    except UnicodeDecodeError:
        return False
    return True


def remove_from_sqlite(connection: BaseDatabaseWrapper) -> None:
    """Drop the triggers, of another version too, so that tables can be remade.

    SQLite renames no table while a trigger names one that is gone.
    """
    with connection.cursor() as cursor:
        cursor.execute("SELECT name FROM sqlite_master WHERE type = 'trigger' AND name GLOB 'dtr_*'")
        for (name,) in cursor.fetchall():
            cursor.execute(f'DROP TRIGGER "{name}"')


def install_on_sqlite(connection: BaseDatabaseWrapper) -> None:
    remove_from_sqlite(connection)
    with connection.cursor() as cursor:
        for sql in sqlite_statements().values():
            cursor.execute(sql)


def missing_on_sqlite(connection: BaseDatabaseWrapper) -> set[str]:
    with connection.cursor() as cursor:
        cursor.execute("SELECT name, sql FROM sqlite_master WHERE type = 'trigger'")
        found = dict(cursor.fetchall())
    return {name for name, sql in sqlite_statements().items() if found.get(name) != sql}
