"""Rules about who writes: statements that the grants of `manage.py tasksql roles` allow, and that are refused.

Grants are by column and cannot look at values. Operators, and the owner of the tables, pass all of these rules.
"""

from ..clock import FUNCTION
from ..models import FlowLimit, Schedule
from . import conditions
from .conditions import DECISION, LIMIT, QUEUE, SCHEDULE, SIGNAL, WORKER
from .postgresql import EACH_INSERT, MAY_FINISH, in_full, plpgsql, refuse

MAY_DECIDE = f"pg_catalog.has_table_privilege('{{schema}}.{QUEUE}', 'UPDATE')"  # operators pause queues; workers do not
EACH_DELETE = "BEFORE DELETE ON {table} FOR EACH ROW"


def role_functions() -> list[str]:
    return [decision_function(), breaker_function(), signal_function()]


def decision_function() -> str:
    return plpgsql(
        "dtr_guard_decision",
        f"  IF NOT {MAY_DECIDE} THEN {refuse(conditions.UNDECIDED)}; END IF;\n"
        "  IF TG_OP OPERATOR(pg_catalog.=) 'DELETE' THEN RETURN OLD; END IF;\n  RETURN NEW;",
    )


def breaker_function() -> str:
    refused = f"({in_full(by_breaker())}) IS NOT TRUE AND NOT {MAY_DECIDE}"
    return plpgsql("dtr_guard_breaker", f"  IF {refused} THEN {refuse(conditions.UNDECIDED)}; END IF;\n  RETURN NEW;")


def by_breaker() -> str:
    """A circuit breaker signs its pauses, and probes soon. It does not touch the pause of a person."""
    # Twice as long as breakers rest, because a standby's clock may be behind.
    soon = f"({{schema}}.{FUNCTION}() + INTERVAL '2 minutes')"
    by_person = "OLD.paused_at IS NOT NULL AND OLD.probe_at IS NULL"
    rests = f"(NEW.paused_by = 'breaker' AND NEW.probing_since IS NULL AND NEW.probe_at <= {soon})"
    probes = f"(NEW.probing_since IS NULL OR NEW.probing_since <= {soon})"
    return f"NOT ({by_person}) AND (NEW.paused_at IS NULL OR {rests}) AND {probes}"


def signal_function() -> str:
    signed = "(NEW.actor = 'code' OR NEW.actor = CAST(CURRENT_USER AS text))"
    return plpgsql(
        "dtr_guard_signal",
        f"  IF NOT {in_full(signed)} AND NOT {MAY_FINISH} THEN {refuse(conditions.FORGED)}; END IF;\n  RETURN NEW;",
    )


# Claims create a row without any of these, and write `recent` alone: no rule about pauses is asked for them.
DECIDED = " OR ".join(
    f"{{0}}.{column} IS NOT NULL" for column in (*FlowLimit.DECISIONS, "paused_at", "probe_at", "probing_since")
)
SIGNED = "NEW.decided_by <> '' OR NEW.decided_for <> '' OR NEW.paused_by <> ''"
PAUSE = "paused_at, paused_by, reason, probe_at, probing_since"

BY_RULE = conditions.is_one_of("OLD.kind", ("schedule.skipped", "schedule.missed", "alert.sent"))
OPERATORS_ONLY = conditions.is_one_of(
    "NEW.kind",
    (
        "queue.paused", "queue.resumed", "lane.limited", "schedule.paused", "schedule.resumed", "schedule.deleted",
        "worker.stop_asked",
    ),
)  # fmt: skip
"""Events of decisions that a worker cannot make. A forged lane.limited would excuse a breach of a limit."""

# Workers write schedules of their code and settings. Of those in the database they write only how far they are.
TICKED = ("next_at", "last_at", "last_outcome")
WRITTEN = ", ".join(str(field.column) for field in Schedule._meta.concrete_fields if field.column not in TICKED)

ROLE_ROWS = {
    "dtr_guard_pause": (LIMIT, f"{EACH_INSERT} WHEN ({DECIDED.format('NEW')} OR {SIGNED})", "dtr_guard_decision"),
    "dtr_guard_pause_moved": (LIMIT, f"BEFORE UPDATE OF {PAUSE} ON {{table}} FOR EACH ROW", "dtr_guard_breaker"),
    "dtr_guard_pause_delete": (LIMIT, f"{EACH_DELETE} WHEN ({DECIDED.format('OLD')})", "dtr_guard_decision"),
    "dtr_guard_schedule": (
        SCHEDULE,
        f"{EACH_INSERT} WHEN (NEW.source = 'database' OR NEW.paused_at IS NOT NULL)",
        "dtr_guard_decision",
    ),
    "dtr_guard_schedule_changed": (
        SCHEDULE,
        f"BEFORE UPDATE OF {WRITTEN} ON {{table}} FOR EACH ROW "
        "WHEN (OLD.source = 'database' OR NEW.source = 'database')",
        "dtr_guard_decision",
    ),
    "dtr_guard_stop": (WORKER, f"{EACH_INSERT} WHEN (NEW.stop_asked_at IS NOT NULL)", "dtr_guard_decision"),
    # Not by a grant: a worker that registers again writes the column as it is.
    "dtr_guard_stop_asked": (
        WORKER,
        "BEFORE UPDATE OF stop_asked_at ON {table} FOR EACH ROW "
        "WHEN (NEW.stop_asked_at IS DISTINCT FROM OLD.stop_asked_at)",
        "dtr_guard_decision",
    ),
    "dtr_guard_user": (
        DECISION,
        f"{EACH_INSERT} WHEN (substr(NEW.actor, 1, 5) = 'user:' OR {OPERATORS_ONLY})",
        "dtr_guard_decision",
    ),
    "dtr_guard_decided": (DECISION, f"{EACH_DELETE} WHEN (NOT {BY_RULE})", "dtr_guard_decision"),
    "dtr_guard_signal": (SIGNAL, EACH_INSERT, "dtr_guard_signal"),
}
