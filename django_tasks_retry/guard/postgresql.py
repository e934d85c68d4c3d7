"""The guard on PostgreSQL: once for a whole statement wherever that is possible, so that a batch hardly pays for it.

A session may put operators of its own before PostgreSQL's. Conditions of triggers were understood when they were
made; in functions every operator is named in full.
"""

import re

from ..clock import FUNCTION
from ..models import FIXED_COLUMNS
from ..rules.status import Status
from . import conditions
from .conditions import EVENT, RESULT, STEP, TASK, exists, finished, unfinished

THIS_STATEMENT = "pg_catalog.statement_timestamp()"
OPERATOR = re.compile(r" (=|<>|<=|>=|<|>|\|\||\+|-|&) ")
NAMED = re.compile(r"\b(rtrim|substr|length|pg_column_size|jsonb_\w+)\(")


# Only on the way in: a CHECK would read all of it again at every move. A numeral of few bytes may be printed with
# 131,072 digits, so what counts is the text; what is stored in less than 4 KiB cannot become too long.
SMALL = "(pg_column_size(NEW.{0}) < 4096 OR length(CAST(NEW.{0} AS text)) <= " + f"{conditions.LARGEST})"
KEYS = ", ".join(f"'{key}'" for key in conditions.EXPONENTIAL)
SOUND_BACKOFF = (
    f"NEW.backoff IS NULL OR ({SMALL.format('backoff')} AND (jsonb_typeof(NEW.backoff) = 'array' "
    f"OR jsonb_exists(NEW.backoff, 'function') OR jsonb_exists_all(NEW.backoff, ARRAY[{KEYS}])))"
)
SOUND_PAYLOAD = " AND ".join(
    [
        *(
            f"jsonb_typeof(NEW.{column}) = '{shape}' AND {SMALL.format(column)}"
            for column, shape in conditions.SHAPES.items()
        ),
        f"({SOUND_BACKOFF})",
        conditions.SOUND_EXPIRY,
        conditions.HAS_CALL_ON_FAILURE.format("jsonb_typeof"),
        f"(NEW.on_failure IS NULL OR {SMALL.format('on_failure')})",
    ]
)


# Roles are told apart by what they are granted, so projects may name them as they like (`manage.py tasksql roles`).
MAY_FINISH = f"pg_catalog.has_table_privilege('{{schema}}.{RESULT}', 'INSERT')"
"""Workers and operators finish tasks; who only enqueues does not."""


def is_own(row: str) -> str:
    """The row was written by this transaction. Visible rows of an open transaction are its own, savepoints included."""
    low, current = f"CAST(CAST({row}.xmin AS text) AS bigint)", "pg_catalog.txid_current()"
    # `xmin` has 32 bits: the id is the one of 64 bits that ends in them and is nearest to the current one.
    ahead = f"((({low} - {current}) + 2147483648) & 4294967295) - 2147483648"
    return f"pg_catalog.txid_status({current} + ({ahead})) = 'in progress'"


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


def contract_functions() -> list[str]:
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
        f"  IF ({in_full(conditions.FRESH)}) IS NOT TRUE THEN {refuse(conditions.UNFRESH)}; END IF;\n"
        f"  IF ({in_full(SOUND_PAYLOAD)}) IS NOT TRUE THEN {refuse(conditions.UNSOUND)}; END IF;\n"
        f"  IF ({in_full(ORIGIN)} OR NEW.batch IS NOT NULL) AND NOT {MAY_FINISH} THEN\n"
        f"    IF {in_full(foreign())} THEN {refuse(conditions.FOREIGN)}; END IF;\n"
        "  END IF;\n  RETURN NEW;",
    )


ORIGIN = (
    "NEW.schedule_id IS NOT NULL OR NEW.retry_of_id IS NOT NULL OR NEW.parent_id IS NOT NULL OR NEW.run_id <> NEW.id"
)
"""The task comes from a schedule, from a retry or from inside another task, not from a process that only enqueues."""


OWN_BATCH = "(a.kind <> 'batch' OR jsonb_extract_path_text(a.result, 'batch') = CAST(t.id AS text))"
"""A step of a callback names the batch of that callback: whatever ends the task ends its batch."""


def foreign() -> str:
    """The batch of a callback has its id. That of a task that gathers has an id that no task has, until one takes it.

    One look is enough, for members that are there before the first of one's own are others'.
    """
    callback = lacks(f"{HOT} AS c", f"c.id = NEW.batch AND {is_own('c')}")
    others = (
        f"SELECT ({is_own('m')}) IS NOT TRUE FROM {HOT} AS m WHERE m.batch = NEW.batch ORDER BY m.batch, m.id LIMIT 1"  # noqa: S608
    )
    return f"{ORIGIN} OR {callback} OR ({others}) IS TRUE"


def move_function() -> str:
    values = "OLD.status, NEW.status USING ERRCODE = 'check_violation'"
    return plpgsql(
        "dtr_guard_move",
        "".join(map(allow_moves_to, (Status.RUNNING, Status.SUCCESS, Status.PENDING, Status.FAILED, Status.CANCELLED)))
        + f"  IF {in_full(finished('OLD'))} THEN {refuse(conditions.FINAL)}; END IF;\n"
        f"  RAISE EXCEPTION '{conditions.ILLEGAL} (% → %)', {values};",
    )


def allow_moves_to(target: Status) -> str:
    """By target, for each transaction prepares anew the expressions that it meets: 25 µs if they were one."""
    legal = conditions.legal(f"{{schema}}.{FUNCTION}()", [target])
    return in_full(f"  IF NEW.status = '{target}' THEN\n    IF {legal} THEN RETURN NEW; END IF;\n  END IF;\n")


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
    held = conditions.step_is_held("a", "t", f"({MAY_FINISH} OR ({is_own('t')} AND {OWN_BATCH}))")
    not_held = lacks(f"{HOT} AS t", held).replace("now()", f"{{schema}}.{FUNCTION}()")
    return [
        refuse_if_any("dtr_guard_result", "moved AS m", no_result, conditions.NO_RESULT),
        refuse_if_any("dtr_guard_outcome_insert", "added AS a", never, conditions.NO_END),
        plpgsql("dtr_guard_left", refuse_if(in_full(left), conditions.NO_END)),
        refuse_if_any("dtr_guard_event_insert", "added AS a", no_move, conditions.NO_MOVE),
        refuse_if_any("dtr_guard_step_insert", "added AS a", not_held, conditions.NOT_HELD),
    ]


def truncate_function() -> str:
    """Django's flush empties all tables by one statement. Emptying only some of these leaves something behind."""
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
# Fires only if a statement names one of these columns, so the hot path never pays for comparing arguments.
FIXED_CALL = f"BEFORE UPDATE OF {', '.join(FIXED_COLUMNS)} ON {{table}} FOR EACH ROW WHEN ({conditions.REWRITTEN})"
FINISHED_ONLY = f"BEFORE DELETE ON {{table}} FOR EACH ROW WHEN ({unfinished('OLD')})"

CONTRACT_ROWS = {
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


# A statement that names a partition does not fire the statement triggers of its parent, so each partition has its own.
# An archive takes in only rows that stand in the table of tasks, column by column, at that moment; they never change.
IS_SAME_ROW = "CAST(t AS record) OPERATOR(pg_catalog.*=) CAST(a AS record)"
"""Bit by bit; the tables have the same columns in the same order."""

ARCHIVED = {
    "dtr_guard_archive": (ONCE_ADDED, "dtr_guard_archive"),
    "dtr_guard_archived": (EACH_UPDATE, "dtr_guard_archived"),
    "dtr_guard_truncate": (ONCE_TRUNCATED, "dtr_guard_truncate"),
}
"""The triggers of each table of finished tasks: name → (when, function)."""

KNOWN = {"dtr_guard_known": (ONCE_ADDED, "dtr_guard_known")}
"""The trigger of the table of tasks if such tables exist: its primary key does not cover their ids, but results do."""

UNMOVED = "IllegalMove: history takes in a finished task as it is, and from the table of tasks alone"


def unmoved() -> str:
    same = f"t.id OPERATOR(pg_catalog.=) a.id AND {IS_SAME_ROW}"
    return exists("added AS a", lacks(f"{HOT} AS t", same))
