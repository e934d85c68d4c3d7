"""Which role may run which statement: the one list. `test_roles.py` runs it, `docs/generate.py` prints it.

`{other}`, `{done}`, `{batch}` and `{gathered}` are ids of rows that somebody else has committed; see the fixture `ids`.
"""

from __future__ import annotations

from typing import NamedTuple

TABLE = "django_tasks_retry_"
PRODUCER, WORKER, OPERATOR = ROLES = ("producer", "worker", "operator")
NOBODY: frozenset[str] = frozenset()
EVERYBODY = frozenset(ROLES)
FINISHERS = frozenset({WORKER, OPERATOR})
WORKERS, OPERATORS = frozenset({WORKER}), frozenset({OPERATOR})


class Statement(NamedTuple):
    """A statement in words and in SQL, the roles that may run it, and why the guard refuses it to others."""

    words: str
    sql: str
    may: frozenset[str]
    reason: str = ""


def insert(table: str, **values: str) -> str:
    """As SQL; the values are expressions."""
    return f"INSERT INTO {TABLE}{table} ({', '.join(values)}) VALUES ({', '.join(values.values())})"


def lane(name: str = "'new'", kind: str = "'lane'", **values: str) -> str:
    texts = dict.fromkeys(("decided_by", "decided_for", "paused_by", "reason"), "''")
    return insert(
        "lanestate", **{"kind": kind, "name": name, "created_at": "now()", "recent": "'[]'", **texts, **values}
    )


def change_lane(name: str, values: str) -> str:
    return f"UPDATE {TABLE}lanestate SET {values} WHERE name = '{name}'"


def schedule(name: str = "new", source: str = "code", **values: str) -> str:
    call = {"func_path": "'tests.tasks.noop'", "args": "'[]'", "kwargs": "'{{}}'", "backend": "'default'"}
    timing = {"cron": "''", "every": "60", "timezone": "'UTC'", "overlap": "'skip'", "updated_at": "now()"}
    state = {"source": f"'{source}'", "paused_by": "''", "reason": "''", "last_outcome": "''"}
    return insert("schedule", **{"name": f"'{name}'", **call, **timing, **state, **values})


def change_schedule(name: str, values: str) -> str:
    return f"UPDATE {TABLE}schedule SET {values} WHERE name = '{name}'"


def worker(name: str = "new", **values: str) -> str:
    facts = {"host": "'h'", "pid": "1", "version": "'1'", "backend": "'default'", "processes": "1", "slots": "1"}
    lists = dict.fromkeys(("queues", "exclude", "tasks"), "'[]'")
    state = {"running": "0", "started_at": "now()", "heartbeat_at": "now()", "stop_asked_by": "''"}
    return insert("worker", **{"id": f"'{name}'", **facts, **lists, **state, **values})


def signal(actor: str) -> str:
    return insert("signal", name="'go'", payload="'1'", ts="now()", actor=actor)


def decision(kind: str, actor: str) -> str:
    return insert("operatorevent", kind=f"'{kind}'", subject="'x'", ts="now()", actor=f"'{actor}'", reason="''")


def given_step(kind: str, task_id: str = "{other}", result: str = "null") -> str:
    return insert(
        "step", task_id=f"'{task_id}'", name="'charge'", kind=f"'{kind}'", attempt="0", actor="'queue'", ts="now()",
        result=f"'{result}'",
    )  # fmt: skip


COPIED = (
    "func_path, args, kwargs, metadata, backend, max_attempts, timeout, interval, created_at, queue, priority, eta, "
    "status, attempts, refunds, updated_at"
)


def task(run_id: str = "fresh.id", fresh: str = "gen_random_uuid()", **values: str) -> str:
    """Like the other one, with an id of its own."""
    columns, expressions = ["id", "run_id", *values], ["fresh.id", run_id, *values.values()]
    return (
        f"INSERT INTO {TABLE}task ({', '.join(columns)}, {COPIED}) SELECT {', '.join(expressions)}, {COPIED} "
        f"FROM {TABLE}task AS t, (SELECT {fresh} AS id) AS fresh WHERE t.id = '{{other}}'"
    )


NEW_ID = "0199aaaa-0000-7000-8000-000000000000"
NEW, GATHERED = f"'{NEW_ID}'::uuid", "'{gathered}'::uuid"
CANCEL = (
    f"WITH gone AS (INSERT INTO {TABLE}taskresult (task_id, status, attempts, finished_at) VALUES ('{{other}}', "
    f"'CANCELLED', 0, statement_timestamp())) UPDATE {TABLE}task SET status = 'CANCELLED', finished_at = "
    "statement_timestamp(), moved_by = 'x', updated_at = statement_timestamp() WHERE id = '{other}'"
)
SOON, FAR = "now() + interval '60 seconds'", "'9099-12-31'"
TRIP = f"paused_at = now(), paused_by = 'breaker', probe_at = {SOON}"
PROBE = "paused_at = NULL, paused_by = '', probe_at = NULL, probing_since = now()"
RESUME = "paused_at = NULL, paused_by = '', reason = '', probe_at = NULL, probing_since = NULL"
OPERATORS_DECIDE = "operators decide"

TASKS = (
    Statement("enqueue a task", task(), EVERYBODY),
    Statement(
        "enqueue the run of a schedule", task(schedule_id="'beat'", slot="now()"), FINISHERS,
        "the schedule's slots would be taken in advance",
    ),
    Statement(
        "enqueue the retry of another task", task(retry_of_id="t.id"), FINISHERS,
        "the failure of that task would count as dealt with",
    ),
    Statement(
        "enqueue a child of another task", task(parent_id="t.id"), FINISHERS, "that task would be kept for its sake",
    ),
    Statement(
        "enqueue into the run of another task", task("t.id"), FINISHERS, "that task would be kept for its sake",
    ),
    Statement(
        "enqueue into a batch that was enqueued before", task(batch="'{batch}'::uuid"), FINISHERS,
        "the batch might never end",
    ),
    Statement(
        "enqueue a task under the id of a batch, and into that batch",
        f"{task(fresh=GATHERED)}; {task(batch=GATHERED)}", FINISHERS, "the batch might never end",
    ),
    Statement(
        "name the batch of others in a step of one's own",
        f"{task(fresh=NEW)}; " + given_step("batch", NEW_ID, '{{"batch": "{batch}"}}'), FINISHERS,
        "it would be cancelled together with that task",
    ),
    Statement(
        "give a step to a task that was enqueued before", given_step("step"), FINISHERS, "its work would be skipped",
    ),
    Statement(
        "give a batch to a task that was enqueued before", given_step("batch"), FINISHERS, "its work would be skipped",
    ),
    Statement("cancel a task", CANCEL, FINISHERS),
    Statement("change a task's call", f"UPDATE {TABLE}task SET args = '[1]' WHERE id = '{{other}}'", NOBODY),
    Statement("change a task's priority", f"UPDATE {TABLE}task SET priority = 1 WHERE id = '{{other}}'", OPERATORS),
    Statement("delete a finished task", f"DELETE FROM {TABLE}task WHERE id = '{{done}}'", WORKERS),
    Statement(
        "delete an unfinished task", f"DELETE FROM {TABLE}task WHERE id = '{{other}}'", NOBODY, "cancel it first",
    ),
    Statement(
        "delete results before their tasks", f"DELETE FROM {TABLE}taskresult", NOBODY, "history goes with its task",
    ),
    Statement(
        "delete events before their tasks", f"DELETE FROM {TABLE}taskevent", NOBODY, "history goes with its task",
    ),
)  # fmt: skip

SIGNALS = (
    Statement("sign a signal as ``code``", signal("'code'"), EVERYBODY),
    Statement("sign a signal by the name of its login", signal("current_user"), EVERYBODY),
    Statement("sign a signal as a user", signal("'user:1'"), FINISHERS, "it would forge an approval"),
    Statement("sign a signal as another program", signal("'billing'"), FINISHERS, "it would forge an approval"),
    Statement("change a signal", f"UPDATE {TABLE}signal SET payload = '2'", NOBODY),
)

LIMITS = (
    Statement(
        "pause a queue", insert("queue", name="'q'", paused_at="now()", paused_by="''", reason="''"), OPERATORS
    ),
    Statement("create the row of a lane, queue or function", lane(), FINISHERS),
    Statement("count the starts of a lane", change_lane("open", "recent = '[[1, 1]]'"), FINISHERS),
    Statement(
        "limit a queue that has no row", lane(kind="'queue'", starts="1", per="2678400"), OPERATORS, OPERATORS_DECIDE,
    ),
    Statement("limit a lane that has no row", lane(running="1"), OPERATORS, OPERATORS_DECIDE),
    Statement("weigh a lane that has no row", lane(weight="0.01"), OPERATORS, OPERATORS_DECIDE),
    Statement("sign a limit that nobody decided", lane(decided_by="'user:1'"), OPERATORS, OPERATORS_DECIDE),
    Statement("limit a lane that has a row", change_lane("open", "running = 1"), OPERATORS),
    Statement("lift a limit", change_lane("limited", "starts = NULL, per = NULL"), OPERATORS),
    Statement("delete the row of a lane without limits", f"DELETE FROM {TABLE}lanestate WHERE name = 'open'", WORKERS),
    Statement(
        "delete the row of a limited lane", f"DELETE FROM {TABLE}lanestate WHERE name = 'limited'", NOBODY,
        "it holds a decision",
    ),
    Statement(
        "delete the row of a paused lane", f"DELETE FROM {TABLE}lanestate WHERE name = 'closed'", NOBODY,
        "it holds a decision",
    ),
)  # fmt: skip

PAUSES = (
    Statement(
        "pause a function that has no row", lane(kind="'function'", paused_at="now()"), OPERATORS, OPERATORS_DECIDE,
    ),
    Statement(
        "pause a function that has no row, as a breaker",
        lane(kind="'function'", paused_at="now()", paused_by="'breaker'", probe_at="now()"),
        OPERATORS, "a breaker has seen attempts, so there is a row",
    ),
    Statement("pause a lane", change_lane("open", "paused_at = now()"), OPERATORS, OPERATORS_DECIDE),
    Statement("pause a lane as a breaker, for a minute", change_lane("open", TRIP), FINISHERS),
    Statement(
        "pause a lane as a breaker, until 9099", change_lane("open", TRIP.replace(SOON, FAR)), OPERATORS,
        "a breaker probes after a minute",
    ),
    Statement(
        "pause a lane for a minute by another name than ``breaker``",
        change_lane("open", TRIP.replace("breaker", "user:1")), OPERATORS, OPERATORS_DECIDE,
    ),
    Statement("probe a lane that a breaker has paused", change_lane("tripped", PROBE), FINISHERS),
    Statement(
        "probe a lane from 9099 on", change_lane("tripped", PROBE.replace("now()", FAR)), OPERATORS,
        "such a probe never ends",
    ),
    Statement("resume a lane that a breaker has paused", change_lane("tripped", RESUME), FINISHERS),
    Statement("resume a lane that a person has paused", change_lane("closed", RESUME), OPERATORS, OPERATORS_DECIDE),
    Statement(
        "turn a person's pause into a breaker's", change_lane("closed", "paused_by = 'breaker', probe_at = now()"),
        OPERATORS, "the breaker would end it",
    ),
    Statement(
        "change the reason of a person's pause", change_lane("closed", "reason = 'x'"), OPERATORS, OPERATORS_DECIDE,
    ),
)  # fmt: skip

OPERATORS_CHANGE = "schedules of the database are for operators"
SCHEDULES = (
    Statement("read schedules", f"SELECT 1 FROM {TABLE}schedule", FINISHERS),
    Statement("create a schedule of the code", schedule(), FINISHERS),
    Statement("change a schedule of the code", change_schedule("coded", "args = '[1]', next_at = now()"), FINISHERS),
    Statement("stop a schedule that left the code", change_schedule("coded", "vanished_at = now()"), FINISHERS),
    Statement("create a paused schedule", schedule(paused_at="now()"), OPERATORS, OPERATORS_DECIDE),
    Statement("pause a schedule", change_schedule("coded", "paused_at = now()"), OPERATORS),
    Statement("resume a schedule", change_schedule("resting", "paused_at = NULL"), OPERATORS),
    Statement("create a schedule of the database", schedule(source="database"), OPERATORS, OPERATORS_CHANGE),
    Statement(
        "move a schedule of the database to its next slot",
        change_schedule("planned", "next_at = now(), last_at = now(), last_outcome = 'enqueued'"), FINISHERS,
    ),
    Statement(
        "change the call of a schedule of the database",
        change_schedule("planned", "func_path = 'tests.tasks.add', args = '[1, 2]'"), OPERATORS, OPERATORS_CHANGE,
    ),
    Statement(
        "stop a schedule of the database", change_schedule("planned", "vanished_at = now()"), OPERATORS,
        OPERATORS_CHANGE,
    ),
    Statement(
        "turn a schedule of the database into one of the code", change_schedule("planned", "source = 'code'"),
        OPERATORS, OPERATORS_CHANGE,
    ),
    Statement("delete a schedule", f"DELETE FROM {TABLE}schedule WHERE name = 'planned'", OPERATORS),
)  # fmt: skip

REGISTRY = (
    Statement("read workers", f"SELECT 1 FROM {TABLE}worker", FINISHERS),
    Statement("register a worker", worker(), WORKERS),
    Statement("send the heartbeat of a worker", f"UPDATE {TABLE}worker SET heartbeat_at = now(), running = 1", WORKERS),
    Statement("forget a worker", f"DELETE FROM {TABLE}worker", WORKERS),
    Statement("ask a worker to stop", f"UPDATE {TABLE}worker SET stop_asked_at = now()", OPERATORS, OPERATORS_DECIDE),
    Statement(
        "withdraw such a request", f"UPDATE {TABLE}worker SET stop_asked_at = NULL WHERE id = 'asked'", OPERATORS,
        OPERATORS_DECIDE,
    ),
    Statement("sign such a request", f"UPDATE {TABLE}worker SET stop_asked_by = 'user:1'", OPERATORS),
    Statement(
        "register a worker that was asked to stop", worker(stop_asked_at="now()"), NOBODY, OPERATORS_DECIDE,
    ),
)  # fmt: skip

DECISIONS = (
    Statement("record a pause by a breaker", decision("lane.paused", "breaker"), FINISHERS),
    Statement(
        "record a decision of a user", decision("lane.paused", "user:1"), OPERATORS, "it is the record of who decided",
    ),
    Statement(
        "record a limit that nobody decided", decision("lane.limited", "code"), OPERATORS,
        "``tasks verify`` would excuse a breach",
    ),
    Statement(
        "forget a skipped slot", f"DELETE FROM {TABLE}operatorevent WHERE kind = 'schedule.skipped'", WORKERS
    ),
    Statement(
        "forget a decision", f"DELETE FROM {TABLE}operatorevent WHERE kind = 'queue.paused'", NOBODY,
        "it is the record of who decided",
    ),
)  # fmt: skip

STATEMENTS = (*TASKS, *SIGNALS, *LIMITS, *PAUSES, *SCHEDULES, *REGISTRY, *DECISIONS)
OTHERS_ROWS = (
    lane("'open'"),
    lane("'limited'", starts="1", per="60", decided_by="'user:1'"),
    lane("'closed'", paused_at="now()", paused_by="'user:1'"),
    lane("'tripped'", paused_at="now()", paused_by="'breaker'", probe_at="now()"),
    schedule("coded"),
    schedule("resting", paused_at="now()"),
    schedule("planned", "database"),
    worker("other"),
    worker("asked", stop_asked_at="now()"),
    decision("queue.paused", "code"),
    decision("schedule.skipped", "code"),
)
"""Rows that these statements name."""
