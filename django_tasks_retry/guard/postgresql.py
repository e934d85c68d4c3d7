"""The guard on PostgreSQL: once for a whole statement wherever that is possible, so that a batch hardly pays for it.

A session may put operators of its own before PostgreSQL's. Conditions of triggers were understood when they were
made; in functions every operator is named in full.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from django.db.backends.base.base import BaseDatabaseWrapper

from ..clock import FUNCTION, create_clock, known_clocks
from ..models import FIXED_COLUMNS
from . import conditions
from .archive import ARCHIVED, KNOWN, UNMOVED, families, unmoved
from .conditions import (
    EVENT,
    EXPONENTIAL,
    FRESH,
    LARGEST,
    RESULT,
    REWRITTEN,
    SHAPES,
    SOUND_EXPIRY,
    STEP,
    TASK,
    exists,
    finished,
    unfinished,
)

THIS_STATEMENT = "pg_catalog.statement_timestamp()"
OPERATOR = re.compile(r" (=|<>|<=|>=|<|>|\|\||\+|-) ")
NAMED = re.compile(r"\b(rtrim|substr|length|pg_column_size|jsonb_\w+)\(")


# Only on the way in: a CHECK would read all of it again at every move. A numeral of few bytes may be printed with
# 131,072 digits, so what counts is the text; what is stored in less than 4 KiB cannot become too long.
SMALL = "(pg_column_size(NEW.{0}) < 4096 OR length(CAST(NEW.{0} AS text)) <= " + f"{LARGEST})"
KEYS = ", ".join(f"'{key}'" for key in EXPONENTIAL)
SOUND_BACKOFF = (
    f"NEW.backoff IS NULL OR ({SMALL.format('backoff')} AND (jsonb_typeof(NEW.backoff) = 'array' "
    f"OR jsonb_exists(NEW.backoff, 'function') OR jsonb_exists_all(NEW.backoff, ARRAY[{KEYS}])))"
)
SOUND_PAYLOAD = " AND ".join(
    [
        *(f"jsonb_typeof(NEW.{column}) = '{shape}' AND {SMALL.format(column)}" for column, shape in SHAPES.items()),
        f"({SOUND_BACKOFF})",
        SOUND_EXPIRY,
    ]
)


def in_full(sql: str) -> str:
    """With the full names of operators and functions, so that nobody's search_path changes what they mean."""
    return NAMED.sub(r"pg_catalog.\1(", OPERATOR.sub(r" OPERATOR(pg_catalog.\1) ", sql))


def plpgsql(name: str, body: str, settings: str = "") -> str:
    return (
        f"CREATE OR REPLACE FUNCTION {{schema}}.{name}() RETURNS trigger LANGUAGE plpgsql {settings}AS $guard$\n"
        f"BEGIN\n{body}\nEND $guard$"
    )


def refuse(message: str) -> str:
    return f"RAISE EXCEPTION '{message}' USING ERRCODE = 'check_violation'"


def refusing_function(name: str, message: str) -> str:
    return plpgsql(name, f"  {refuse(message)};")


def refuse_if(condition: str, message: str) -> str:
    return f"  IF {condition} THEN {refuse(message)}; END IF;\n  RETURN NULL;"


def refuse_if_any(name: str, rows: str, where: str, message: str) -> str:
    """For a whole statement, whose rows the trigger sees as a table."""
    # The plan is kept by the session: one made while there were few rows must not read all of them later.
    return plpgsql(name, refuse_if(exists(rows, in_full(where)), message), "SET enable_seqscan = off ")


# Where history is partitioned, finished tasks lie in tables that inherit from this one. What moves never does.
HOT = f"ONLY {{schema}}.{TASK}"
KEPT = f"{{schema}}.{TASK}"
ENDS = f"{{schema}}.{RESULT}"


def lacks(table: str, where: str) -> str:
    """No row of the table is like that. By its index, whatever the statistics say."""
    return f"(SELECT TRUE FROM {table} WHERE {where} LIMIT 1) IS NULL"  # noqa: S608 - names of our own


def postgresql_functions() -> list[str]:
    history = f"gone JOIN {{schema}}.{TASK} AS t ON t.id OPERATOR(pg_catalog.=) gone.task_id"
    return [
        new_task_function(),
        move_function(),
        *insert_functions(),
        refuse_if_any("dtr_guard_history", history, "TRUE", conditions.HISTORY_DELETE),
        refuse_if_any("dtr_guard_outcome_delete", history, finished("t"), conditions.HISTORY_DELETE),
        truncate_function(),
        refusing_function("dtr_guard_call", conditions.FIXED),
        refusing_function("dtr_guard_append_only", conditions.APPEND_ONLY),
        refusing_function("dtr_guard_delete", conditions.UNFINISHED_DELETE),
        plpgsql("dtr_guard_archive", refuse_if(unmoved(), UNMOVED), "SET enable_seqscan = off "),
        refusing_function("dtr_guard_archived", conditions.FINAL),
        refuse_if_any(
            "dtr_guard_known",
            f"added AS a JOIN {ENDS} AS r ON r.task_id OPERATOR(pg_catalog.=) a.id",
            "TRUE",
            conditions.REPLACED,
        ),
    ]


def new_task_function() -> str:
    # Not as conditions of triggers: those are read anew for every statement, which took an enqueue 40 µs of 200.
    return plpgsql(
        "dtr_guard_insert",
        f"  IF ({in_full(FRESH)}) IS NOT TRUE THEN {refuse(conditions.UNFRESH)}; END IF;\n"
        f"  IF ({in_full(SOUND_PAYLOAD)}) IS NOT TRUE THEN {refuse(conditions.UNSOUND)}; END IF;\n"
        "  RETURN NEW;",
    )


def move_function() -> str:
    told = "OLD.status, NEW.status USING ERRCODE = 'check_violation'"
    return plpgsql(
        "dtr_guard_move",
        f"  IF ({in_full(conditions.legal('{schema}.' + FUNCTION + '()'))}) IS NOT TRUE THEN\n"
        f"    IF {in_full(finished('OLD'))} THEN {refuse(conditions.FINAL)}; END IF;\n"
        f"    RAISE EXCEPTION '{conditions.ILLEGAL} (% → %)', {told};\n"
        "  END IF;\n  RETURN NEW;",
    )


def insert_functions() -> list[str]:
    """A final move comes with its result, a result with its final move, an event with its move; none lies."""
    no_result = f"{finished('m')} AND {lacks(f'{ENDS} AS r', conditions.result_agrees('r', 'm'))}"
    no_end = lacks(f"{HOT} AS t", conditions.result_agrees("a", "t"))
    never = (
        f"{no_end} AND (a.finished_at = {THIS_STATEMENT} OR {lacks(f'{HOT} AS t', conditions.may_end_so('a', 't'))})"
    )
    is_gone = lacks(f"{ENDS} AS r", "r.task_id = NEW.task_id")
    left = f"{lacks(f'{KEPT} AS t', conditions.result_agrees('NEW', 't'))} AND NOT {is_gone}"
    no_move = lacks(f"{HOT} AS t", conditions.event_agrees("a", "t"))
    not_held = lacks(f"{HOT} AS t", conditions.step_is_held("a", "t")).replace("now()", f"{{schema}}.{FUNCTION}()")
    return [
        refuse_if_any("dtr_guard_result", "moved AS m", no_result, conditions.NO_RESULT),
        refuse_if_any("dtr_guard_outcome_insert", "added AS a", never, conditions.NO_END),
        plpgsql("dtr_guard_left", refuse_if(in_full(left), conditions.NO_END)),
        refuse_if_any("dtr_guard_event_insert", "added AS a", no_move, conditions.NO_MOVE),
        refuse_if_any("dtr_guard_step_insert", "added AS a", not_held, conditions.NOT_HELD),
    ]


def truncate_function() -> str:
    """Django's flush empties all tables by one statement. What empties only some of these leaves something behind."""
    left = " OR ".join(exists(f"{{schema}}.{table}", "TRUE") for table in (TASK, RESULT, EVENT, STEP))
    return plpgsql("dtr_guard_truncate", refuse_if(left, conditions.TRUNCATED))


# A result may come a statement before the end of its task. Whoever takes its time from the same statement, as workers
# do, is looked at only once, with all others; what comes earlier is looked at again when the transaction ends.
BEFORE_THE_END = (
    "AFTER INSERT ON {table} DEFERRABLE INITIALLY DEFERRED FOR EACH ROW "
    f"WHEN (NEW.finished_at IS DISTINCT FROM {THIS_STATEMENT})"
)
ONCE_MOVED = "AFTER UPDATE ON {table} REFERENCING NEW TABLE AS moved FOR EACH STATEMENT"
ONCE_ADDED = "AFTER INSERT ON {table} REFERENCING NEW TABLE AS added FOR EACH STATEMENT"
ONCE_DELETED = "AFTER DELETE ON {table} REFERENCING OLD TABLE AS gone FOR EACH STATEMENT"
ONCE_TRUNCATED = "AFTER TRUNCATE ON {table} FOR EACH STATEMENT"
EACH_INSERT = "BEFORE INSERT ON {table} FOR EACH ROW"
EACH_UPDATE = "BEFORE UPDATE ON {table} FOR EACH ROW"
# Fires only where a statement names one of these columns, so the hot path never pays for comparing arguments.
FIXED_CALL = f"BEFORE UPDATE OF {', '.join(FIXED_COLUMNS)} ON {{table}} FOR EACH ROW WHEN ({REWRITTEN})"
FINISHED_ONLY = f"BEFORE DELETE ON {{table}} FOR EACH ROW WHEN ({unfinished('OLD')})"

ROWS = {
    "dtr_guard_insert": (TASK, EACH_INSERT, "dtr_guard_insert"),
    "dtr_guard_call": (TASK, FIXED_CALL, "dtr_guard_call"),
    "dtr_guard_move": (TASK, EACH_UPDATE, "dtr_guard_move"),
    "dtr_guard_result": (TASK, ONCE_MOVED, "dtr_guard_result"),
    "dtr_guard_delete": (TASK, FINISHED_ONLY, "dtr_guard_delete"),
    "dtr_guard_outcome_insert": (RESULT, ONCE_ADDED, "dtr_guard_outcome_insert"),
    "dtr_guard_left": (RESULT, BEFORE_THE_END, "dtr_guard_left"),
    "dtr_guard_outcome": (RESULT, EACH_UPDATE, "dtr_guard_append_only"),
    "dtr_guard_outcome_delete": (RESULT, ONCE_DELETED, "dtr_guard_outcome_delete"),
    "dtr_guard_event_insert": (EVENT, ONCE_ADDED, "dtr_guard_event_insert"),
    "dtr_guard_event": (EVENT, EACH_UPDATE, "dtr_guard_append_only"),
    "dtr_guard_event_delete": (EVENT, ONCE_DELETED, "dtr_guard_history"),
    "dtr_guard_step_insert": (STEP, ONCE_ADDED, "dtr_guard_step_insert"),
    "dtr_guard_step": (STEP, EACH_UPDATE, "dtr_guard_append_only"),
    "dtr_guard_step_delete": (STEP, ONCE_DELETED, "dtr_guard_history"),
    "dtr_guard_step_truncate": (STEP, ONCE_TRUNCATED, "dtr_guard_truncate"),
    "dtr_guard_truncate": (TASK, ONCE_TRUNCATED, "dtr_guard_truncate"),
    "dtr_guard_outcome_truncate": (RESULT, ONCE_TRUNCATED, "dtr_guard_truncate"),
    "dtr_guard_event_truncate": (EVENT, ONCE_TRUNCATED, "dtr_guard_truncate"),
}


def postgresql_triggers() -> dict[str, tuple[str, str]]:
    """Name → (table, definition)."""
    return {
        name: (table, f"CREATE {kind_of(when)} {name} {when} EXECUTE FUNCTION {{schema}}.{function}()")
        for name, (table, when, function) in ROWS.items()
    }


def triggers_of(parent: str) -> dict[str, str]:
    """What each partition of this table, or each table of finished tasks, must have: name → definition.

    Triggers for each row come from the parent by themselves, and leave with its own.
    """
    if parent == TASK:
        return definitions(ARCHIVED)
    rows = {name: (when, function) for name, (table, when, function) in ROWS.items() if table == parent}
    return definitions({name: row for name, row in rows.items() if "FOR EACH STATEMENT" in row[0]})


def definitions(rows: Mapping[str, tuple[str, str]]) -> dict[str, str]:
    return {
        name: f"CREATE TRIGGER {name} {when} EXECUTE FUNCTION {{schema}}.{function}()"
        for name, (when, function) in rows.items()
    }


def kind_of(when: str) -> str:
    return "CONSTRAINT TRIGGER" if "DEFERRABLE" in when else "TRIGGER"


def guard_version() -> str:
    """Changes whenever the guard's text does, so that an old guard is recognised."""
    triggers = [sql for _, sql in postgresql_triggers().values()] + list(definitions(ARCHIVED | KNOWN).values())
    text = "\n".join([*postgresql_functions(), *triggers])
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def install_on_postgresql(connection: BaseDatabaseWrapper) -> None:
    with connection.cursor() as cursor:
        cursor.execute("SELECT quote_ident(current_schema()), current_setting('search_path')")
        schema, search_path = cursor.fetchone()
        kin = families(cursor)
        # Whoever may create operators in a schema of the path must not lend them to the conditions.
        cursor.execute("SET LOCAL search_path = pg_catalog, pg_temp")
        create(cursor, schema)
        for parent, child in kin:
            create_triggers(cursor, schema, child, triggers_of(parent))
        if TASK in dict(kin):
            create_triggers(cursor, schema, TASK, definitions(KNOWN))
        cursor.execute("SELECT set_config('search_path', %s, true)", [search_path])
        seal(cursor, schema)


def guard_parent(cursor: Any, table: str) -> None:
    """For a table that takes the place of another one. In a transaction."""
    guard_table(cursor, table, {name: sql for name, (its, sql) in postgresql_triggers().items() if its == table})


def guard_known_ids(cursor: Any) -> None:
    """For the table of tasks, once some are elsewhere. In a transaction."""
    guard_table(cursor, TASK, definitions(KNOWN))


def guard_child(cursor: Any, parent: str, child: str) -> None:
    """For a new partition, or a new table of finished tasks. In a transaction."""
    guard_table(cursor, child, triggers_of(parent))


def guard_table(cursor: Any, table: str, triggers: Mapping[str, str]) -> None:
    cursor.execute("SELECT quote_ident(current_schema()), current_setting('search_path')")
    schema, search_path = cursor.fetchone()
    cursor.execute("SET LOCAL search_path = pg_catalog, pg_temp")
    create_triggers(cursor, schema, table, triggers)
    cursor.execute("SELECT set_config('search_path', %s, true)", [search_path])


def seal(cursor: Any, schema: str, tables: Collection[str] = ()) -> None:
    """Write on each trigger what it must be; on those of some tables, or on all."""
    for table, name, text, comment in postgresql_seals(cursor):
        if name in {*ROWS, *ARCHIVED, *KNOWN} and text != comment and (not tables or table in tables):
            cursor.execute(f"COMMENT ON TRIGGER {name} ON {schema}.\"{table}\" IS '{text}'")


def remove_from_postgresql(connection: BaseDatabaseWrapper) -> None:
    with connection.cursor() as cursor:
        there = set(connection.introspection.table_names(cursor))
        for name, (table, _) in postgresql_triggers().items():
            if table in there:
                cursor.execute(f'DROP TRIGGER IF EXISTS {name} ON "{table}"')


def create(cursor: Any, schema: str) -> None:
    cursor.execute(create_clock(f"{schema}."))
    for sql in postgresql_functions():
        cursor.execute(sql.format(schema=schema))
    for name, (table, sql) in postgresql_triggers().items():
        create_triggers(cursor, schema, table, {name: sql})


def create_triggers(cursor: Any, schema: str, table: str, triggers: Mapping[str, str]) -> None:
    for name, sql in triggers.items():
        qualified = f'{schema}."{table}"'
        cursor.execute(f"DROP TRIGGER IF EXISTS {name} ON {qualified}")
        cursor.execute(sql.format(schema=schema, table=qualified))


def missing_on_postgresql(connection: BaseDatabaseWrapper) -> set[str]:
    with connection.cursor() as cursor:
        sealed = {(table, name) for table, name, seal, comment in postgresql_seals(cursor) if seal == comment}
        clock = set() if clock_is_whole(cursor) else {FUNCTION}
        kin = families(cursor)
    absent = {name for name, (table, *_) in ROWS.items() if (table, name) not in sealed}
    return clock | absent | {f"{name} on {child}" for child, name in required(kin) - sealed}


def required(kin: Sequence[tuple[str, str]]) -> set[tuple[str, str]]:
    """Child and trigger, those for each row included."""
    of_table = {parent: [name for name, (table, *_) in ROWS.items() if table == parent] for parent, _ in kin}
    needed = {(child, name) for parent, child in kin for name in (ARCHIVED if parent == TASK else of_table[parent])}
    return needed | ({(TASK, name) for name in KNOWN} if TASK in dict(kin) else set())


# By what a trigger does, not by how the server prints it: that changes with search_path, with its version, and once it
# was dumped and restored, by which brackets and casts it writes.
SEALS = r"""
SELECT c.relname, t.tgname, %s || ':' || md5(concat_ws(
        '|', t.tgtype, t.tgoldtable, t.tgnewtable, t.tgdeferrable, t.tginitdeferred,
        (SELECT string_agg(a.attname, ',' ORDER BY a.attname)
            FROM pg_attribute a WHERE a.attrelid = c.oid AND a.attnum = ANY (t.tgattr::int2[])),
        regexp_replace(
            substring(pg_get_triggerdef(t.oid) FROM ' WHEN \((.*)\) EXECUTE '), '::[a-z ]+(\[\])?|[()\s]', '', 'g'
        ),
        p.proname, p.prosrc, p.provolatile, p.proconfig, p.prosecdef, l.lanname
    )), obj_description(t.oid, 'pg_trigger')
FROM pg_trigger t
JOIN pg_class c ON c.oid = t.tgrelid
JOIN pg_proc p ON p.oid = t.tgfoid
JOIN pg_language l ON l.oid = p.prolang
WHERE c.relnamespace = quote_ident(current_schema())::regnamespace
    AND (NOT t.tgisinternal OR t.tgparentid <> 0) AND t.tgenabled IN ('O', 'A')
"""
CLOCK = """
SELECT p.prosrc
FROM pg_proc p JOIN pg_language l ON l.oid = p.prolang
WHERE p.pronamespace = quote_ident(current_schema())::regnamespace AND p.proname = %s AND p.pronargs = 0
    AND p.prorettype = 'timestamptz'::regtype AND l.lanname = 'sql' AND p.provolatile = 's'
    AND p.proconfig IS NULL AND NOT p.prosecdef
"""


def postgresql_seals(cursor: Any) -> list[tuple[str, str, str, str | None]]:
    """Table and name of each trigger that is on, the seal it should bear, and its comment, where the seal is kept."""
    cursor.execute(SEALS, [guard_version()])
    return list(cursor.fetchall())


def clock_is_whole(cursor: Any) -> bool:
    """Whether the queue's clock is there and tells the server's time, or what this process has shifted it to."""
    cursor.execute(CLOCK, [FUNCTION])
    found = cursor.fetchone()
    return found is not None and found[0] in known_clocks()
