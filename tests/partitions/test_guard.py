"""With partitioned history the contract is as strict: each table that a statement may name has the same rules."""

from __future__ import annotations

import pytest
from django.db import IntegrityError, connections, transaction

from django_tasks_retry import guard, taskqueue
from django_tasks_retry.errors import GuardMissing, LeaseLost
from django_tasks_retry.models import Step, Task, TaskEvent, TaskResult
from tests.partitions.scene import archive_all, done, today
from tests.steps import enqueue

TASK, RESULT, EVENT, STEP = (model._meta.db_table for model in (Task, TaskResult, TaskEvent, Step))


@pytest.fixture
def part(parted, travel):
    """The end of the names of the tables that hold a task which has succeeded."""
    done()
    travel(60)
    archive_all(parted)
    return today(parted).name


def refused(using, sql):
    with pytest.raises(IntegrityError, match="IllegalMove"), transaction.atomic(using=using):
        connections[using].cursor().execute(sql)


@pytest.mark.parametrize(
    "sql",
    [
        f"UPDATE {TASK} SET priority = 5",
        f"UPDATE {TASK}_$ SET priority = 5",
        f"UPDATE {TASK}_$ SET finished_at = now()",
        f"UPDATE {RESULT} SET result = '1'",
        f"UPDATE {RESULT}_$ SET result = '1'",
        f"UPDATE {EVENT}_$ SET actor = 'me'",
        f"DELETE FROM {RESULT}",
        f"DELETE FROM {RESULT}_$",
        f"DELETE FROM {EVENT}",
        f"DELETE FROM {EVENT}_$",
        f"TRUNCATE {TASK}_$",
        f"TRUNCATE {RESULT}_$",
        f"TRUNCATE {EVENT}_$",
        f"INSERT INTO {EVENT}_$ (id, task_id, kind, ts, attempt, actor, data) "
        f"SELECT 0, task_id, 'task.failed', ts, 2, actor, '{{}}' FROM {EVENT} LIMIT 1",
        f"INSERT INTO {EVENT} (task_id, kind, ts, attempt, actor, data) "
        f"SELECT id, 'task.failed', updated_at, attempts, 'me', '{{}}' FROM {TASK}",
    ],
)
def test_finished_tasks_and_their_history_are_closed_by_every_name(parted, part, sql):
    refused(parted, sql.replace("$", part))


def test_history_takes_in_no_task_that_was_not_there(parted, part):
    other = f'{{"id": "{uuid_like(parted)}"}}'
    copied = f"SELECT (json_populate_record(t, '{other}')).* FROM {TASK}_{part} AS t"
    refused(parted, f"INSERT INTO {TASK}_{part} {copied}")


def uuid_like(using):
    """A task of the same period."""
    task = Task.objects.using(using).get()
    return str(task.pk)[:-4] + "abcd"


def test_no_new_task_takes_the_id_of_one_that_has_moved(parted, part):
    columns = (
        "id, run_id, func_path, args, kwargs, metadata, backend, max_attempts, timeout, interval, created_at, queue"
    )
    fresh = f"{columns}, priority, eta, refunds, attempts, updated_at"
    copied = fresh.replace("attempts, updated_at", "0, updated_at").replace("max_0", "max_attempts")
    refused(parted, f"INSERT INTO {TASK} ({fresh}, status) SELECT {copied}, 'PENDING' FROM {TASK}_{part}")


def test_a_task_does_not_change_on_its_way(parted, travel):
    done()
    name = today(parted).name
    refused(
        parted,
        f"INSERT INTO {TASK}_{name} SELECT (json_populate_record(t, '{{\"args\": [1]}}')).* FROM ONLY {TASK} AS t",
    )


def test_an_unfinished_task_cannot_be_put_away(parted):
    enqueue()
    with pytest.raises(IntegrityError, match="history"), transaction.atomic(using=parted):
        connections[parted].cursor().execute(f"INSERT INTO {TASK}_{today(parted).name} SELECT * FROM ONLY {TASK}")


@pytest.mark.parametrize("table", [TASK, RESULT, EVENT, STEP])
@pytest.mark.fault("trigger_off_on_one_partition")
def test_a_trigger_that_is_off_on_one_partition_is_missed_and_put_back(parted, part, table):
    with connections[parted].cursor() as cursor:
        cursor.execute(f"ALTER TABLE {table}_{part} DISABLE TRIGGER USER")
    assert guard.missing(parted)
    with pytest.raises(GuardMissing, match=f"{table}_{part}"):
        guard.ensure(parted)
    guard.install(parted)
    assert not guard.missing(parted)


def test_a_unique_key_is_free_again_when_its_task_has_moved(parted, travel):
    [task] = done(unique_key="one")
    travel(60)
    archive_all(parted)
    again = enqueue(unique_key="one")
    assert again.pk != task.pk
    assert enqueue(unique_key="one").already_enqueued


@pytest.mark.fault("report_after_move_to_history")
def test_a_late_report_about_a_task_that_has_moved_changes_nothing(parted, travel):
    task = enqueue()
    [lease] = taskqueue.claim("worker")
    taskqueue.complete_task(lease, 1)
    travel(60)
    archive_all(parted)
    with pytest.raises(LeaseLost):
        taskqueue.complete_task(lease, 2)
    assert Task.objects.get(pk=task.pk).outcome.result == 1
