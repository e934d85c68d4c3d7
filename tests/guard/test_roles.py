"""`manage.py tasksql roles`: each role can do its part, on a real PostgreSQL, and nothing beyond it."""

from __future__ import annotations

from io import StringIO

import pytest
from django.core.management import CommandError, call_command
from django.db import IntegrityError, ProgrammingError, connections, transaction

from django_tasks_retry import call, taskqueue
from django_tasks_retry.management.commands.tasksql import ROLES
from django_tasks_retry.models import Step, Task
from django_tasks_retry.taskqueue.finish.renew import report_progress
from tests import tasks
from tests.cli.conftest import tasks_command
from tests.router import CurrentDatabase
from tests.steps import enqueue, now_of
from tests.workflows import tasks as workflows

PG = "postgresql"


def roles_sql(**options: str) -> str:
    out = StringIO()
    call_command("tasksql", "roles", stdout=out, **options)
    return out.getvalue()


def execute(sql: str) -> None:
    with connections[PG].cursor() as cursor:
        cursor.execute(sql)


@pytest.fixture
def become(monkeypatch, db):
    """Create the roles, and be one of them for the rest of the test."""
    monkeypatch.setattr(CurrentDatabase, "current", PG)
    execute(roles_sql(prefix="test"))
    return lambda role: execute(f"SET LOCAL ROLE test_{role}")


pytestmark = pytest.mark.django_db(databases=["default", PG])


def refused(sql: str) -> None:
    with pytest.raises(ProgrammingError, match=r"permission denied|must be owner"), transaction.atomic(using=PG):
        execute(sql)


def test_a_worker_can_do_everything_that_workers_do(become):
    rows = [enqueue(tasks.add, 1, 2) for _ in range(5)]
    enqueue(tasks.noop, interval=60)
    become("worker")
    taskqueue.register_worker("w", "default", host="h", pid=1, version="1", processes=1, slots=1)
    taskqueue.heartbeat("w", "default", 3)
    done, failed, released, lost, kept, repeating = taskqueue.claim("w/1", limit=6)
    assert taskqueue.renew([kept]) == {}
    assert kept.id in taskqueue.renew_workers(["w/1"], 60, actor="w")
    report_progress(kept, 1, 2)
    taskqueue.complete_task(done, 3)
    taskqueue.complete_task(repeating)
    taskqueue.fail_task(failed, ValueError("no"))
    taskqueue.release_task(released, "shutdown")
    assert {receipt.lease.id for receipt in taskqueue.recover(actor="w", dead="w/1")} == {lost.id, kept.id}
    taskqueue.add_stats([taskqueue.Stat("default", "tests.tasks.add", completed=1)])
    taskqueue.forget_stats()
    assert sum(taskqueue.prune(keep=dict.fromkeys(("SUCCESS", "FAILED", "CANCELLED"), 1e-09))) == 2
    taskqueue.deregister_worker("w", "default")
    assert {now_of(row).status for row in rows[1:]} == {"PENDING"}


def test_a_producer_can_enqueue_and_read_results(become):
    become("producer")
    row = Task.objects.enqueue(tasks.noop, unique_key="once")
    assert Task.objects.enqueue(tasks.noop, unique_key="once").already_enqueued
    assert tasks.noop.get_result(str(row.pk)).status == "READY"
    Task.objects.enqueue_many([(tasks.add, [1, 2])] * 3)


def test_an_operator_can_retry_cancel_reschedule_pause_and_ask_to_stop(become):
    waiting, running, again = enqueue(), enqueue(), enqueue()
    taskqueue.register_worker("w", "default", host="h", pid=1, version="1", processes=1, slots=1)
    taskqueue.claim("w/1")
    become("operator")
    taskqueue.reschedule([again.pk], queue="bulk", priority=3, by="ops")
    assert taskqueue.cancel([waiting.pk, running.pk], by="ops").skipped == 0
    taskqueue.retry([waiting.pk], by="ops")
    taskqueue.pause("emails", by="ops")
    assert taskqueue.resume("emails", by="ops")
    assert taskqueue.ask_to_stop("w", by="ops")


@pytest.mark.parametrize("role", ["producer", "worker", "operator"])
def test_no_role_can_touch_the_guard_or_the_call(become, role):
    become(role)
    refused("UPDATE django_tasks_retry_task SET func_path = 'os.system'")
    refused("UPDATE django_tasks_retry_task SET args = '[]'")
    refused("UPDATE django_tasks_retry_taskevent SET actor = 'somebody else'")
    refused("UPDATE django_tasks_retry_taskresult SET result = NULL")
    refused("TRUNCATE django_tasks_retry_task")
    refused("ALTER TABLE django_tasks_retry_task DISABLE TRIGGER ALL")
    refused("DROP FUNCTION dtr_guard_move() CASCADE")
    refused("SET session_replication_role = replica")


def test_a_producer_cannot_move_and_a_worker_cannot_decide(become):
    become("producer")
    refused("UPDATE django_tasks_retry_task SET status = 'RUNNING'")
    refused("DELETE FROM django_tasks_retry_task")
    execute("RESET ROLE")
    become("worker")
    refused("UPDATE django_tasks_retry_task SET priority = 100")
    refused("INSERT INTO django_tasks_retry_queue (name) VALUES ('emails')")
    execute("RESET ROLE")
    become("operator")
    refused("DELETE FROM django_tasks_retry_taskevent")


def test_names_cannot_smuggle_sql():
    with pytest.raises(CommandError, match="not a plain name"):
        roles_sql(prefix="tasks; DROP TABLE x")


def test_an_operator_can_use_the_whole_command_line(become):
    first, second = enqueue(tasks.noop), enqueue(tasks.noop)
    become("operator")
    for words in (
        ["list"], ["show", first.pk], ["queues"], ["failures"], ["stats"], ["export"], ["top", "--once"],
        ["verify"], ["cancel", first.pk], ["retry", first.pk], ["reschedule", second.pk, "--now"], ["resume", "emails"],
        ["pause", "emails", "--reason", "x"], ["resume", "emails"], ["events"], ["prune", "--dry-run"],
    ):  # fmt: skip
        answer = tasks_command(*words)
        assert answer.code in {0, 5}, (words, answer)


PRODUCER, WORKER, OPERATOR = ROLES
TABLE = "django_tasks_retry_"
LIMITED = f"INSERT INTO {TABLE}lanestate (kind, name, created_at, recent, decided_by, decided_for, paused_by, reason"
SIGNED = f"INSERT INTO {TABLE}signal (name, payload, ts, actor) VALUES ('go', '1', now(), "
DECIDED = f"INSERT INTO {TABLE}operatorevent (kind, subject, ts, actor, reason) VALUES ('lane.paused', 'x', now(), "
STEPPED = (
    f"INSERT INTO {TABLE}step (task_id, name, kind, attempt, actor, ts, result) "
    "VALUES ('{other}', 'charge', '{kind}', 0, 'queue', now(), 'null')"
)
SAME = (
    "run_id, func_path, args, kwargs, metadata, backend, max_attempts, timeout, interval, created_at, queue, priority, "
    "eta, status, attempts, refunds, updated_at"
)
COPIED = (
    f"INSERT INTO {TABLE}task (id, {SAME}{{columns}}) SELECT gen_random_uuid(), {SAME}{{values}} FROM {TABLE}task "
    "WHERE id = '{other}'"
)
STATEMENTS: dict[str, tuple[str, set[str]]] = {
    "enqueue": (COPIED.format(columns="", values="", other="{other}"), {PRODUCER, WORKER, OPERATOR}),
    "enqueue for a schedule": (
        COPIED.format(columns=", schedule_id, slot", values=", 'beat', now()", other="{other}"),
        {WORKER, OPERATOR},
    ),
    "join a batch": (
        COPIED.format(columns=", batch", values=", '{batch}'::uuid", other="{other}"),
        {WORKER, OPERATOR},
    ),
    "give a step": (STEPPED.replace("{kind}", "step"), {WORKER, OPERATOR}),
    "give a batch": (STEPPED.replace("{kind}", "batch"), {WORKER, OPERATOR}),
    "signal as code": (SIGNED + "'code')", {PRODUCER, WORKER, OPERATOR}),
    "signal as its login": (SIGNED + "current_user)", {PRODUCER, WORKER, OPERATOR}),
    "signal as a user": (SIGNED + "'user:1')", {WORKER, OPERATOR}),
    "signal as another program": (SIGNED + "'billing')", {WORKER, OPERATOR}),
    "change a signal": (f"UPDATE {TABLE}signal SET payload = '2'", set()),
    "cancel": (
        f"WITH gone AS (INSERT INTO {TABLE}taskresult (task_id, status, attempts, finished_at) VALUES ('{{other}}', "
        f"'CANCELLED', 0, statement_timestamp())) UPDATE {TABLE}task SET status = 'CANCELLED', finished_at = "
        "statement_timestamp(), moved_by = 'x', updated_at = statement_timestamp() WHERE id = '{other}'",
        {WORKER, OPERATOR},
    ),
    "change a priority": (f"UPDATE {TABLE}task SET priority = 1 WHERE id = '{{other}}'", {OPERATOR}),
    "delete a task": (f"DELETE FROM {TABLE}task WHERE id = '{{done}}'", {WORKER}),
    "delete results": (f"DELETE FROM {TABLE}taskresult WHERE FALSE", {WORKER}),
    "delete events": (f"DELETE FROM {TABLE}taskevent WHERE FALSE", {WORKER}),
    "pause a queue": (
        f"INSERT INTO {TABLE}queue (name, paused_at, paused_by, reason) VALUES ('q', now(), '', '')",
        {OPERATOR},
    ),
    "count a lane": (LIMITED + ") VALUES ('lane', 'new', now(), '[]', '', '', '', '')", {WORKER, OPERATOR}),
    "pause a lane": (
        LIMITED + ", paused_at) VALUES ('function', 'f', now(), '[]', '', '', '', '', now())",
        {OPERATOR},
    ),
    "trip a breaker": (
        LIMITED + ", paused_at, probe_at) VALUES ('lane', 'new', now(), '[]', '', '', '', '', now(), now())",
        {WORKER, OPERATOR},
    ),
    "pause a known lane": (f"UPDATE {TABLE}lanestate SET paused_at = now() WHERE name = 'open'", {OPERATOR}),
    "resume a paused lane": (f"UPDATE {TABLE}lanestate SET paused_at = NULL WHERE name = 'closed'", {OPERATOR}),
    "delete a paused lane": (f"DELETE FROM {TABLE}lanestate WHERE name = 'closed'", set()),
    "limit a lane": (f"UPDATE {TABLE}lanestate SET running = 1 WHERE name = 'open'", {OPERATOR}),
    "decide as a rule": (DECIDED + "'breaker', '')", {WORKER, OPERATOR}),
    "decide as a user": (DECIDED + "'user:1', '')", {OPERATOR}),
    "forget a skipped slot": (f"DELETE FROM {TABLE}operatorevent WHERE kind = 'schedule.skipped'", {WORKER}),
    "forget a decision": (f"DELETE FROM {TABLE}operatorevent WHERE kind = 'queue.paused'", set()),
    "read schedules": (f"SELECT 1 FROM {TABLE}schedule", {WORKER, OPERATOR}),
    "read workers": (f"SELECT 1 FROM {TABLE}worker", {WORKER, OPERATOR}),
}


@pytest.fixture
def ids(become):
    """Rows of somebody else: a task that waits, one that has finished, a batch, a lane, decisions."""
    other, done = enqueue(), enqueue()
    done.cancel()
    [member] = Task.objects.enqueue_many([call(workflows.double, 1)], then=call(workflows.publish, "x"))
    execute(LIMITED + ") VALUES ('lane', 'open', now(), '[]', '', '', '', '')")
    execute(LIMITED + ", paused_at) VALUES ('lane', 'closed', now(), '[]', '', '', '', '', now())")
    for kind in ("queue.paused", "schedule.skipped"):
        execute(DECIDED.replace("lane.paused", kind) + "'code', '')")
    # Committed: the guard knows rows of its own transaction from those of others.
    execute("COMMIT; BEGIN")
    yield {"other": str(other.pk), "done": str(done.pk), "batch": str(member.batch)}
    execute("ROLLBACK; BEGIN")
    for table in ("lanestate", "operatorevent", "signal"):
        execute(f"DELETE FROM {TABLE}{table}")
    tables = ", ".join(f"{TABLE}{name}" for name in ("task", "taskresult", "taskevent", "step"))
    execute(f"TRUNCATE {tables}")
    execute("COMMIT; BEGIN")


def may(sql: str) -> bool:
    try:
        with transaction.atomic(using=PG):
            execute(sql)
            execute("SET CONSTRAINTS ALL IMMEDIATE")
            transaction.set_rollback(True, using=PG)
    except (ProgrammingError, IntegrityError) as error:
        if "permission denied" in str(error) or "IllegalMove" in str(error):
            return False
        raise
    return True


def test_each_role_may_do_its_statements_and_no_others(become, ids):
    found: dict[str, set[str]] = {name: set() for name in STATEMENTS}
    for role in ROLES:
        become(role)
        for name, (sql, _) in STATEMENTS.items():
            if may(sql.format(**ids)):
                found[name].add(role)
        execute("RESET ROLE")
    assert found == {name: roles for name, (_, roles) in STATEMENTS.items()}


def test_a_producer_gives_steps_and_members_to_what_it_enqueues(become):
    """In savepoints as well: the guard knows the rows of its own transaction."""
    become("producer")
    with transaction.atomic(using=PG):
        calls = [call(workflows.double, n) for n in range(3)]
        members = Task.objects.enqueue_many(calls, then=call(workflows.publish, "news"))
    assert Task.objects.enqueue_many([], then=call(workflows.publish, "nothing")) == []
    assert len({member.batch for member in members}) == 1
    assert Step.objects.filter(name="then").count() == 2
    taskqueue.signal("go", 1)
