"""The contract inside the database: triggers made from the table of legal moves.

A stray `save()`, an admin form or a psql session meets the same rules as the service layer. A worker's report must
state its lease in `moved_by`; the triggers compare it with the lease in the row, by the queue's own clock.

Installed after every `migrate`, because SQLite drops a table's triggers whenever it remakes the table.
"""

from __future__ import annotations

import hashlib
from typing import Any

from django.db import connections, router, transaction
from django.db.backends.base.base import BaseDatabaseWrapper

from .clock import CREATE_POSTGRESQL, FUNCTION
from .errors import GuardMissing
from .models import FIXED_COLUMNS, PLACE_COLUMNS, Task, TaskEvent, TaskResult
from .rules.status import FINISHED, UNFINISHED, Status
from .rules.transitions import CLAIM, KEPT, LOSE, MOVES, RENEW, Move, Who

TASK = Task._meta.db_table
RESULT = TaskResult._meta.db_table
EVENT = TaskEvent._meta.db_table


def supervised(by: str) -> str:
    return f"substr(OLD.locked_by, 1, length({by}) + 1) = {by} || '/'"


# What a claim or a renewal leaves in the row ends in a plus, which is not what ends the lease. Otherwise a stray UPDATE
# that leaves `moved_by` as it is would pass for the holder's own report.
KEEPER = f"rtrim(NEW.moved_by, '{KEPT}')"
SUPERVISED = supervised("NEW.moved_by")
ENDS_ITS_LEASE = f"(NEW.moved_by = OLD.locked_by || ':' || OLD.attempts OR {SUPERVISED})"
KEEPS_ITS_LEASE = (
    f"NEW.moved_by = {KEEPER} || '{KEPT}' AND ({KEEPER} = OLD.locked_by || ':' || OLD.attempts OR {supervised(KEEPER)})"
)

DEMANDS = {
    Who.ANYONE: "TRUE",
    Who.CLAIMER: f"NEW.moved_by = NEW.locked_by || ':' || NEW.attempts || '{KEPT}' AND NEW.lock_expires_at > now()",
    Who.KEEPER: f"OLD.lock_expires_at > now() AND {KEEPS_ITS_LEASE}",
    Who.HOLDER: f"OLD.lock_expires_at > now() AND {ENDS_ITS_LEASE}",
    Who.FINDER: f"(OLD.lock_expires_at <= now() OR {SUPERVISED})",
}
KEEPS_ITS_PLACE = " AND ".join(f"NEW.{column} = OLD.{column}" for column in PLACE_COLUMNS)
ALSO = {
    CLAIM: "OLD.eta <= now()",
    RENEW: f"NEW.locked_by = OLD.locked_by AND NEW.lock_expires_at >= OLD.lock_expires_at AND {KEEPS_ITS_PLACE}",
    LOSE: KEEPS_ITS_PLACE,
}
BUDGET_LEFT = "OLD.attempts - OLD.refunds < OLD.max_attempts"


def condition(move: Move) -> str:
    """The move as SQL over OLD and NEW."""
    parts = [
        f"OLD.status = '{move.source}' AND NEW.status = '{move.target}'",
        f"NEW.attempts = OLD.attempts + {move.attempts} AND NEW.refunds = OLD.refunds + {move.refunds}",
        DEMANDS[move.who],
    ]
    if move in ALSO:
        parts.append(ALSO[move])
    if move.budget is not None:
        parts.append(BUDGET_LEFT if move.budget else f"NOT ({BUDGET_LEFT})")
    return "(" + " AND ".join(parts) + ")"


def legal(now: str) -> str:
    conditions = "\n    OR ".join(condition(move) for move in MOVES if move.source)
    return conditions.replace("now()", now)


def listed(statuses: tuple[Status, ...]) -> str:
    return ", ".join(f"'{status}'" for status in statuses)


FRESH = "NEW.status = 'PENDING' AND NEW.attempts = 0 AND NEW.refunds = 0"
ILLEGAL = "IllegalMove: this change is not in the table of legal moves"
FIXED = "IllegalMove: what a task was asked to do never changes"
FINAL = "IllegalMove: a finished task never changes"
UNFRESH = "IllegalMove: a task begins as PENDING with no attempts"
APPEND_ONLY = "IllegalMove: events and results are append-only"
NO_RESULT = "IllegalMove: a finished task needs its result, written before it or by the same statement"
HISTORY_DELETE = "IllegalMove: events and results go with their task, not before it"
UNFINISHED_DELETE = "IllegalMove: an unfinished task cannot be deleted; cancel it first"


def sqlite_trigger(name: str, when: str, refuse_if: str, message: str) -> tuple[str, str]:
    body = f"SELECT RAISE(ABORT, '{message}')"
    return name, f"CREATE TRIGGER {name} BEFORE {when} WHEN {refuse_if} BEGIN {body}; END"


def sqlite_statements() -> dict[str, str]:
    finished = f"OLD.status IN ({listed(FINISHED)})"
    changed = " OR ".join(f"NEW.{column} IS NOT OLD.{column}" for column in FIXED_COLUMNS)
    no_result = f"NEW.status IN ({listed(FINISHED)}) AND NOT EXISTS (SELECT 1 FROM {RESULT} WHERE task_id = NEW.id)"
    return dict(
        [
            sqlite_trigger("dtr_guard_insert", f"INSERT ON {TASK}", f"NOT ({FRESH})", UNFRESH),
            sqlite_trigger("dtr_guard_call", f"UPDATE OF {', '.join(FIXED_COLUMNS)} ON {TASK}", changed, FIXED),
            sqlite_trigger("dtr_guard_final", f"UPDATE ON {TASK}", finished, FINAL),
            sqlite_trigger(
                "dtr_guard_move", f"UPDATE ON {TASK}",
                f"NOT ({finished}) AND ({legal(FUNCTION + '()')}) IS NOT TRUE", ILLEGAL,
            ),
            sqlite_trigger("dtr_guard_result", f"UPDATE ON {TASK}", no_result, NO_RESULT),
            sqlite_trigger("dtr_guard_event_update", f"UPDATE ON {EVENT}", "TRUE", APPEND_ONLY),
            sqlite_trigger("dtr_guard_result_update", f"UPDATE ON {RESULT}", "TRUE", APPEND_ONLY),
        ]
    )  # fmt: skip


def plpgsql(name: str, body: str, settings: str = "") -> str:
    return (
        f"CREATE OR REPLACE FUNCTION {{schema}}.{name}() RETURNS trigger LANGUAGE plpgsql {settings}AS $guard$\n"
        f"BEGIN\n{body}\n  RETURN COALESCE(NEW, OLD);\nEND $guard$"
    )


def refuse(message: str) -> str:
    return f"RAISE EXCEPTION '{message}' USING ERRCODE = 'check_violation'"


def refusing_function(name: str, message: str) -> str:
    return plpgsql(name, f"  {refuse(message)};")


def postgresql_trigger(name: str, when: str, function: str) -> str:
    return f"CREATE TRIGGER {name} {when} EXECUTE FUNCTION {{schema}}.{function}()"


def postgresql_functions() -> list[str]:
    move = (
        f"  IF OLD.status IN ({listed(FINISHED)}) THEN {refuse(FINAL)}; END IF;\n"
        f"  IF ({legal('{schema}.' + FUNCTION + '()')}) IS NOT TRUE THEN\n"
        f"    RAISE EXCEPTION '{ILLEGAL} (% → %)', OLD.status, NEW.status USING ERRCODE = 'check_violation';\n"
        "  END IF;"
    )
    result = (
        f"  IF EXISTS (\n    SELECT 1 FROM moved WHERE status IN ({listed(FINISHED)})\n"
        f"      AND (SELECT TRUE FROM {{schema}}.{RESULT} WHERE task_id = moved.id LIMIT 1) IS NULL\n"
        f"  ) THEN {refuse(NO_RESULT)}; END IF;\n  RETURN NULL;"
    )
    history = (
        f"  IF EXISTS (SELECT 1 FROM gone JOIN {{schema}}.{TASK} AS t ON t.id = gone.task_id) THEN "
        f"{refuse(HISTORY_DELETE)}; END IF;\n  RETURN NULL;"
    )
    return [
        plpgsql("dtr_guard_move", move),
        plpgsql("dtr_guard_history", history),
        # The plan is kept by the session: one made while there were few results must not read all of them later.
        plpgsql("dtr_guard_result", result, "SET enable_seqscan = off "),
        refusing_function("dtr_guard_insert", UNFRESH),
        refusing_function("dtr_guard_call", FIXED),
        refusing_function("dtr_guard_append_only", APPEND_ONLY),
        refusing_function("dtr_guard_delete", UNFINISHED_DELETE),
    ]


# For a whole batch at once, so that it hardly pays for it.
ONCE_MOVED = "AFTER UPDATE ON {table} REFERENCING NEW TABLE AS moved FOR EACH STATEMENT"
ONCE_DELETED = "AFTER DELETE ON {table} REFERENCING OLD TABLE AS gone FOR EACH STATEMENT"


def postgresql_triggers() -> dict[str, tuple[str, str]]:
    """Name → (table, definition)."""
    changed = " OR ".join(f"NEW.{column} IS DISTINCT FROM OLD.{column}" for column in FIXED_COLUMNS)
    rows = {
        "dtr_guard_insert": (TASK, f"BEFORE INSERT ON {{table}} FOR EACH ROW WHEN (NOT ({FRESH}))", "dtr_guard_insert"),
        # Fires only where a statement names one of these columns, so the hot path never pays for comparing arguments.
        "dtr_guard_call": (
            TASK,
            f"BEFORE UPDATE OF {', '.join(FIXED_COLUMNS)} ON {{table}} FOR EACH ROW WHEN ({changed})",
            "dtr_guard_call",
        ),
        "dtr_guard_move": (TASK, "BEFORE UPDATE ON {table} FOR EACH ROW", "dtr_guard_move"),
        "dtr_guard_result": (TASK, ONCE_MOVED, "dtr_guard_result"),
        "dtr_guard_delete": (
            TASK,
            f"BEFORE DELETE ON {{table}} FOR EACH ROW WHEN (OLD.status IN ({listed(UNFINISHED)}))",
            "dtr_guard_delete",
        ),
        "dtr_guard_event_delete": (EVENT, ONCE_DELETED, "dtr_guard_history"),
        "dtr_guard_outcome_delete": (RESULT, ONCE_DELETED, "dtr_guard_history"),
        "dtr_guard_event": (EVENT, "BEFORE UPDATE ON {table} FOR EACH ROW", "dtr_guard_append_only"),
        "dtr_guard_outcome": (RESULT, "BEFORE UPDATE ON {table} FOR EACH ROW", "dtr_guard_append_only"),
    }
    return {name: (table, postgresql_trigger(name, when, function)) for name, (table, when, function) in rows.items()}


def guard_version() -> str:
    """Changes whenever the guard's text does, so that an old guard is recognised."""
    text = "\n".join([*postgresql_functions(), *(sql for _, sql in postgresql_triggers().values())])
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def install(using: str) -> None:
    """Put the guard in place where it is missing, disabled or of another version."""
    if not missing(using):
        return
    connection = connections[using]
    with transaction.atomic(using=using):
        if connection.vendor == "sqlite":
            install_on_sqlite(connection)
        else:
            install_on_postgresql(connection)


def install_on_sqlite(connection: BaseDatabaseWrapper) -> None:
    with connection.cursor() as cursor:
        for name, sql in sqlite_statements().items():
            cursor.execute(f"DROP TRIGGER IF EXISTS {name}")
            cursor.execute(sql)


def install_on_postgresql(connection: BaseDatabaseWrapper) -> None:
    with connection.cursor() as cursor:
        cursor.execute("SELECT quote_ident(current_schema())")
        schema = cursor.fetchone()[0]
        cursor.execute(CREATE_POSTGRESQL.format(seconds=0))
        for sql in postgresql_functions():
            cursor.execute(sql.format(schema=schema))
        for name, (table, sql) in postgresql_triggers().items():
            qualified = f'{schema}."{table}"'
            cursor.execute(f"DROP TRIGGER IF EXISTS {name} ON {qualified}")
            cursor.execute(sql.format(schema=schema, table=qualified))
        for table, name, seal, _ in postgresql_seals(cursor):
            if name in postgresql_triggers():
                cursor.execute(f"COMMENT ON TRIGGER {name} ON {schema}.\"{table}\" IS '{seal}'")


def missing(using: str) -> set[str]:
    """The names of the triggers that are absent, disabled or of another version."""
    connection = connections[using]
    if connection.vendor == "sqlite":
        return {name for name, sql in sqlite_statements().items() if sqlite_triggers(connection).get(name) != sql}
    return set(postgresql_triggers()) - postgresql_enabled(connection)


def sqlite_triggers(connection: BaseDatabaseWrapper) -> dict[str, str]:
    with connection.cursor() as cursor:
        cursor.execute("SELECT name, sql FROM sqlite_master WHERE type = 'trigger'")
        return dict(cursor.fetchall())


def postgresql_enabled(connection: BaseDatabaseWrapper) -> set[str]:
    with connection.cursor() as cursor:
        sealed = {(table, name) for table, name, seal, comment in postgresql_seals(cursor) if seal == comment}
    return {name for name, (table, _) in postgresql_triggers().items() if (table, name) in sealed}


def postgresql_seals(cursor: Any) -> list[tuple[str, str, str, str | None]]:
    """Table and name of each trigger that is on, the seal it should bear, and its comment, where the seal is kept."""
    cursor.execute(
        "SELECT c.relname, t.tgname, %s || ':' || md5(pg_get_triggerdef(t.oid) || p.prosrc), "
        "obj_description(t.oid, 'pg_trigger') "
        "FROM pg_trigger t JOIN pg_class c ON c.oid = t.tgrelid JOIN pg_proc p ON p.oid = t.tgfoid "
        "WHERE c.relnamespace = quote_ident(current_schema())::regnamespace "
        "AND NOT t.tgisinternal AND t.tgenabled IN ('O', 'A')",
        [guard_version()],
    )
    return list(cursor.fetchall())


def ensure(using: str) -> None:
    """Refuse to go on without the guard."""
    absent = missing(using)
    if absent:
        raise GuardMissing(
            f"Database {using!r} does not enforce the task contract: {', '.join(sorted(absent))} missing, disabled or "
            "of another version. Run manage.py migrate, which installs the guard."
        )


def install_after_migrate(using: str, **_: Any) -> None:
    """Receiver of `post_migrate`."""
    connection = connections[using]
    if not router.allow_migrate_model(using, Task) or connection.vendor not in {"sqlite", "postgresql"}:
        return
    with connection.cursor() as cursor:
        tables = set(connection.introspection.table_names(cursor))
    if {TASK, RESULT, EVENT} <= tables:
        install(using)
