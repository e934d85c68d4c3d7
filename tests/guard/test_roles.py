"""`manage.py tasksql roles`: each role can do its part, on a real PostgreSQL, and nothing beyond it."""

from __future__ import annotations

from io import StringIO
from uuid import uuid4

import pytest
from django.core import mail
from django.core.management import CommandError, call_command
from django.db import IntegrityError, ProgrammingError, connections, transaction

from django_tasks_retry import call, clock, taskqueue
from django_tasks_retry.analysis.alerts import send_alerts
from django_tasks_retry.clock import Now
from django_tasks_retry.display.scope import current_scope, read_standing
from django_tasks_retry.management.commands.tasksql import ROLES
from django_tasks_retry.models import FlowLimit, Schedule, Step, Task
from django_tasks_retry.taskqueue.control import breaker
from django_tasks_retry.taskqueue.renewal import report_progress
from tests import tasks
from tests.analysis.test_alerts import MAILERS
from tests.cli.conftest import tasks_command
from tests.guard.role_statements import OTHERS_ROWS, STATEMENTS, TABLE, task
from tests.lanes.test_limits import with_lanes
from tests.router import CurrentDatabase
from tests.schedules.steps import decisions, plan
from tests.steps import begin, enqueue, now_of
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


EVERY_MINUTE = {"task": "tests.tasks.noop", "every": 60}


@pytest.mark.parametrize("role", ["worker", "operator"])
def test_workers_and_operators_can_send_alerts_and_workers_forget_them(become, configure, settings, role):
    settings.MAILERS = MAILERS
    configure(ALERTS=["ops@example.com"])
    enqueue(tasks.noop, max_attempts=1)
    [lease] = taskqueue.claim("w/1")
    taskqueue.fail_task(lease, ValueError("no"))
    become(role)
    if role == "worker":
        send_alerts(read_standing(current_scope()))
    else:
        assert tasks_command("check", "--alert").code == 1
    assert len(mail.outbox) == 1
    forget = f"DELETE FROM {TABLE}operatorevent WHERE kind = 'alert.sent'"
    if role == "worker":
        execute(forget)
    else:
        refused(forget)


@pytest.mark.parametrize("command", ["check", "doctor", "events", "queues", "workers", "late"])
@pytest.mark.parametrize("role", ["worker", "operator"])
def test_the_shell_answers_workers_and_operators(become, role, command):
    _task, lease = begin()
    taskqueue.fail_task(lease, ValueError("no"))
    become(role)
    answer = tasks_command(command)
    assert answer.code in (0, 1, 4), answer.err


def test_a_worker_keeps_the_schedules_of_its_code_and_ticks_those_of_the_database(become, configure):
    plan("planned")
    Schedule.objects.update(next_at=Now())
    configure(SCHEDULES={"coded": EVERY_MINUTE})
    become("worker")
    list(taskqueue.sync_schedules())
    configure(SCHEDULES={"coded": {**EVERY_MINUTE, "every": 90}})
    list(taskqueue.sync_schedules())
    Schedule.objects.filter(name="coded").update(next_at=Now())
    assert taskqueue.tick(listed=["coded"]).enqueued == 2
    assert taskqueue.stop_vanished() == ["coded"]
    list(taskqueue.sync_schedules())
    assert decisions("coded") == ["schedule.created", "schedule.changed", "schedule.vanished", "schedule.changed"]


def test_a_worker_counts_in_lanes_and_runs_their_breakers(become, settings):
    limits = {"crm": {"rate": (2, 60)}, "function:tests.tasks.noop": {"failure_threshold": 0.5}}
    settings.TASKS = with_lanes(settings.TASKS, limits)
    for _ in range(3):
        enqueue(lane="crm")
    become("worker")
    assert len(taskqueue.claim("w/1", limit=9)) == 2
    taskqueue.add_stats([taskqueue.Stat("default", "tests.tasks.noop", failed=30)])
    assert [taskqueue.tick_breakers() for _ in range(2)] == [1, 0]
    assert FlowLimit.objects.get(kind="function").probe_at <= clock.now(PG) + breaker.REST
    for outcome in ({"failed": 1}, {"completed": 1}):
        execute("RESET ROLE")
        FlowLimit.objects.filter(kind="function").update(probe_at=Now())
        become("worker")
        assert taskqueue.tick_breakers() == 1
        taskqueue.add_stats([taskqueue.Stat("default", "tests.tasks.noop", **outcome)])
        assert taskqueue.tick_breakers() == 1
    told = ["paused", "probing", "paused", "probing", "resumed"]
    assert decisions("function:tests.tasks.noop") == [f"lane.{verb}" for verb in told]
    assert taskqueue.forget_idle() == 0


def test_a_worker_registers_again_after_it_was_asked_to_stop(become):
    facts = {"host": "h", "pid": 1, "version": "1", "processes": 1, "slots": 1}
    taskqueue.register_worker("w", "default", **facts)
    taskqueue.ask_to_stop("w", by="ops")
    become("worker")
    taskqueue.register_worker("w", "default", **facts)
    [peer] = taskqueue.heartbeat("w", "default")
    assert peer.stop_asked_at is not None


def test_roles_take_back_what_an_earlier_version_granted(become):
    execute(f"GRANT ALL ON {TABLE}schedule, {TABLE}worker, {TABLE}queue TO test_worker")
    execute(roles_sql(prefix="test"))
    become("worker")
    refused(f"UPDATE {TABLE}schedule SET paused_at = NULL")
    refused(f"UPDATE {TABLE}worker SET stop_asked_by = ''")
    refused(f"UPDATE {TABLE}queue SET paused_at = NULL")


def test_a_producer_can_enqueue_by_sql_though_nobody_else_may(become):
    execute("REVOKE ALL ON FUNCTION django_tasks_retry_enqueue FROM PUBLIC")
    become("producer")
    execute("SELECT django_tasks_retry_enqueue('tests.tasks.noop', unique_key => 'k')")
    assert Task.objects.get().unique_key == "k"


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


@pytest.fixture
def ids(become):
    """Rows of somebody else: a task that waits, one that has finished, a batch, and those that the statements name."""
    other, done = enqueue(), enqueue()
    done.cancel()
    [member] = Task.objects.enqueue_many([call(workflows.double, 1)], then=call(workflows.publish, "x"))
    gathered = str(uuid4())
    execute(task(batch=f"'{gathered}'::uuid").format(other=other.pk))
    for sql in OTHERS_ROWS:
        execute(sql.format())
    # Committed: the guard knows rows of its own transaction from those of others.
    execute("COMMIT; BEGIN")
    yield {"other": str(other.pk), "done": str(done.pk), "batch": str(member.batch), "gathered": gathered}
    execute("ROLLBACK; BEGIN")
    for table in ("lanestate", "operatorevent", "signal", "schedule", "worker"):
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
    found: dict[str, set[str]] = {statement.words: set() for statement in STATEMENTS}
    for role in ROLES:
        become(role)
        for statement in STATEMENTS:
            if may(statement.sql.format(**ids)):
                found[statement.words].add(role)
        execute("RESET ROLE")
    assert found == {statement.words: statement.may for statement in STATEMENTS}


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
