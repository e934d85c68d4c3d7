"""The legal moves as SQL over OLD and NEW that both databases understand, and the messages of refusals.

Operands that are sums or joined texts stand in brackets: PostgreSQL is given the operators by their full names, and
those bind all alike.
"""

from collections import defaultdict
from collections.abc import Collection, Iterable

from django.apps import apps
from django.db.models import Model

from .. import models
from ..models.tasks import EARLIEST, LATEST
from ..rules.status import FINISHED, UNFINISHED, Status
from ..rules.transitions import CLAIM, HISTORY, KEPT, LOSE, MOVES, RENEW, WAIT, EventKind, Move, Who

TASK = models.Task._meta.db_table
RESULT = models.TaskResult._meta.db_table
EVENT = models.TaskEvent._meta.db_table
STEP = models.Step._meta.db_table
SIGNAL = models.Signal._meta.db_table
LIMIT = models.FlowLimit._meta.db_table
DECISION = models.OperatorEvent._meta.db_table
QUEUE = models.Queue._meta.db_table
SCHEDULE = models.Schedule._meta.db_table
WORKER = models.Worker._meta.db_table
PARTITIONED = (RESULT, EVENT, STEP)  # tables that can be partitioned, by the id of their task


def guarded() -> list[type[Model]]:
    """Return the models whose tables the guard watches: all that have one of their own."""
    return [model for model in apps.get_app_config(models.Task._meta.app_label).get_models() if not model._meta.proxy]


def is_one_of(operand: str, values: Iterable[str]) -> str:
    # Not IN: PostgreSQL prints that in other words once it was dumped and restored, and looks its operator up by name.
    return "(" + " OR ".join(f"{operand} = '{value}'" for value in values) + ")"


def supervised(by: str) -> str:
    return f"substr(OLD.locked_by, 1, length({by}) + 1) = ({by} || '/')"


# What a claim or a renewal leaves in the row ends in a plus, which is not what ends the lease. Otherwise a stray UPDATE
# that leaves `moved_by` as it is would pass for the holder's own report.
KEEPER = f"rtrim(NEW.moved_by, '{KEPT}')"
SUPERVISED = supervised("NEW.moved_by")
LEASE = "(OLD.locked_by || ':' || OLD.attempts)"
ENDS_ITS_LEASE = f"(NEW.moved_by = {LEASE} OR {SUPERVISED})"
# And each renewal says so anew, with one plus or with two, or that same UPDATE would pass for a renewal.
KEEPS_ITS_LEASE = (
    f"NEW.moved_by <> OLD.moved_by AND (NEW.moved_by = ({KEEPER} || '{KEPT}') OR NEW.moved_by = ({KEEPER} || "
    f"'{KEPT}{KEPT}')) AND ({KEEPER} = {LEASE} OR {supervised(KEEPER)})"
)

DEMANDS = {
    Who.ANYONE: "TRUE",
    Who.CLAIMER: f"NEW.moved_by = (NEW.locked_by || ':' || NEW.attempts || '{KEPT}') AND NEW.lock_expires_at > now()",
    Who.KEEPER: f"OLD.lock_expires_at > now() AND {KEEPS_ITS_LEASE}",
    Who.HOLDER: f"OLD.lock_expires_at > now() AND {ENDS_ITS_LEASE}",
    Who.FINDER: f"(OLD.lock_expires_at <= now() OR {SUPERVISED})",
}
KEEPS_ITS_PLACE = " AND ".join(f"NEW.{column} = OLD.{column}" for column in models.PLACE_COLUMNS)
BEFORE_DEADLINE = "(OLD.deadline_at IS NULL OR OLD.deadline_at > now())"
IN_TIME = f"(OLD.expires_at IS NULL OR OLD.expires_at > now() OR (OLD.attempts > OLD.refunds AND {BEFORE_DEADLINE}))"
ALSO = {
    CLAIM: f"OLD.eta <= now() AND {IN_TIME} AND (OLD.started_at IS NULL OR NEW.started_at = OLD.started_at)",
    RENEW: f"NEW.locked_by = OLD.locked_by AND NEW.lock_expires_at >= OLD.lock_expires_at AND {KEEPS_ITS_PLACE}",
    LOSE: KEEPS_ITS_PLACE,
}
BUDGET_LEFT = "(OLD.attempts - OLD.refunds) < OLD.max_attempts"


def unchanged(column: str) -> str:
    return f"(NEW.{column} = OLD.{column} OR (NEW.{column} IS NULL AND OLD.{column} IS NULL))"


def condition(move: Move) -> str:
    """The move as SQL over OLD and NEW."""
    parts = [
        f"OLD.status = '{move.source}' AND NEW.status = '{move.target}'",
        f"NEW.attempts = (OLD.attempts + {move.attempts}) AND NEW.refunds = (OLD.refunds + {move.refunds})",
        DEMANDS[move.who],
    ]
    if move in ALSO:
        parts.append(ALSO[move])
    if move.budget is not None:
        parts.append(BUDGET_LEFT if move.budget else f"NOT ({BUDGET_LEFT})")
    parts += [unchanged(column) for column in HISTORY if column not in move.writes]
    if WAIT not in move.writes:
        parts.append(f"(NEW.{WAIT} IS NULL OR NEW.{WAIT} = OLD.{WAIT})")
    return "(" + " AND ".join(parts) + ")"


def legal(now: str, targets: Collection[Status] = tuple(Status)) -> str:
    conditions = "\n    OR ".join(condition(move) for move in MOVES if move.source and move.target in targets)
    return conditions.replace("now()", now)


FRESH = "NEW.status = 'PENDING' AND NEW.attempts = 0 AND NEW.refunds = 0 AND NEW.moved_by IS NULL AND " + " AND ".join(
    f"NEW.{column} IS NULL" for column in HISTORY
)
SOUND_EXPIRY = (
    f"(NEW.expires_at IS NULL OR (NEW.expires_at >= '{EARLIEST}' AND NEW.expires_at < '{LATEST}')) AND "
    f"(NEW.deadline_at IS NULL OR (NEW.deadline_at >= NEW.expires_at AND NEW.deadline_at < '{LATEST}'))"
)
"""Here and not as a CHECK, which would read it again at every move. A task expires by its deadline at the latest."""

HAS_CALL_ON_FAILURE = "(NEW.on_failure IS NULL OR {}(NEW.on_failure) = 'object')"

LARGEST = 64 * 1024 * 1024  # characters of what a task was asked with: four times what MAX_ARGS_SIZE may be
SHAPES = {"args": "array", "kwargs": "object", "metadata": "object"}
EXPONENTIAL = ("base", "factor", "cap", "jitter")
REWRITTEN = " OR ".join(f"NEW.{column} IS DISTINCT FROM OLD.{column}" for column in models.FIXED_COLUMNS)


def finished(row: str) -> str:
    return is_one_of(f"{row}.status", FINISHED)


def unfinished(row: str) -> str:
    return is_one_of(f"{row}.status", UNFINISHED)


def exists(table: str, where: str) -> str:
    return f"EXISTS (SELECT 1 FROM {table} WHERE {where})"  # noqa: S608 - names of our own


def result_agrees(result: str, task: str) -> str:
    """A result tells the same end as its task."""
    same_end = f"{result}.status = {task}.status AND {result}.attempts = {task}.attempts"
    return f"{task}.id = {result}.task_id AND {same_end}"


def may_end_so(result: str, task: str) -> str:
    """A result tells an end that its task can come to by its next move."""
    pending = f"({task}.status = 'PENDING' AND {result}.status = 'CANCELLED')"
    end = f"({task}.status = 'RUNNING' OR {pending})"
    return f"{task}.id = {result}.task_id AND {task}.attempts = {result}.attempts AND {end}"


def kinds_by_status() -> dict[Status, list[str]]:
    """Which events tell of a move to this status."""
    kinds: dict[Status, list[str]] = defaultdict(list, {Status.PENDING: [EventKind.RETRIED.value]})
    for move in MOVES:
        kinds[move.target] += [kind.value for kind in move.events if kind.value not in kinds[move.target]]
    return kinds


def event_agrees(event: str, task: str) -> str:
    """An event tells of the last move of its task: same attempt, same moment, and a kind that goes with the status."""
    agreement = " OR ".join(
        f"({task}.status = '{status}' AND {is_one_of(f'{event}.kind', kinds)})"
        for status, kinds in kinds_by_status().items()
    )
    same_move = f"{event}.attempt = {task}.attempts AND {event}.ts = {task}.updated_at"
    return f"{task}.id = {event}.task_id AND {same_move} AND ({agreement})"


def step_is_held(step: str, task: str, may_give: str = "TRUE") -> str:
    """A step is remembered by the holder of the live lease; or given, if that is allowed, to a task never claimed."""
    fence = f"{task}.locked_by = {step}.actor AND {task}.attempts = {step}.attempt AND {task}.lock_expires_at > now()"
    given = f"{task}.status = 'PENDING' AND {task}.attempts = 0 AND {step}.attempt = 0"
    return f"{task}.id = {step}.task_id AND (({fence}) OR ({given} AND {may_give}))"


def event_repeats(event: str, earlier: str) -> str:
    """The same was told before."""
    return f"{earlier}.task_id = {event}.task_id AND {earlier}.id <> {event}.id AND " + " AND ".join(
        f"{earlier}.{column} = {event}.{column}" for column in ("kind", "attempt", "ts")
    )


ILLEGAL = "IllegalMove: this change is not in the table of legal moves"
UNSOUND = (
    "IllegalMove: arguments are a list, keyword arguments and metadata are objects, a backoff has a known shape, "
    "none of them is longer than 64 MiB, and an expiry lies in the years from 1900 to 9100"
)
MISTYPED = "IllegalMove: a value is of another type than its column, longer, or in another encoding than UTF-8"
FIXED = "IllegalMove: what a task was asked to do never changes"
FINAL = "IllegalMove: a finished task never changes"
UNFRESH = "IllegalMove: a task begins as PENDING with no attempts and no history"
APPEND_ONLY = "IllegalMove: events, results and steps are append-only"
NO_RESULT = (
    "IllegalMove: a finished task needs its result, which agrees with it, written before it or by the same statement"
)
NO_END = "IllegalMove: a result is written with the final move of its task, and agrees with it"
NOT_HELD = "IllegalMove: a step is remembered under the live lease of its task, which this is not"
FOREIGN = (
    "IllegalMove: who only enqueues names no schedule, no other task as its parent, run or original, and no batch but "
    "that of a callback enqueued with it"
)
FORGED = "IllegalMove: who only enqueues signs a signal as code, or by the name of its login"
UNDECIDED = (
    "IllegalMove: operators pause, limit, ask workers to stop, write schedules of the database and sign as users, and "
    "their decisions are kept; workers do none of it"
)
NO_MOVE = "IllegalMove: an event is written with a move of its task, once, and agrees with it"
HISTORY_DELETE = "IllegalMove: events, results and steps go with their task, not before it"
UNFINISHED_DELETE = "IllegalMove: an unfinished task cannot be deleted; cancel it first"
TRUNCATED = "IllegalMove: tasks, results, events and steps can only be truncated together"
REPLACED = "IllegalMove: a task with this id, unique_key or slot exists, and REPLACE would delete it"
