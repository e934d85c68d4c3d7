"""What is written to SQLite past the ORM stands there as the ORM would have written it."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

import pytest
from django.db import connections, transaction

from django_tasks_retry.models import Task, TaskEvent, TaskResult
from django_tasks_retry.rules.status import Status
from django_tasks_retry.rules.transitions import EventKind
from django_tasks_retry.taskqueue import EnqueueOptions
from django_tasks_retry.taskqueue.engines.sqlite_rows import write_rows
from django_tasks_retry.taskqueue.enqueue.enqueue import prepare
from django_tasks_retry.taskqueue.events import event, result_of
from django_tasks_retry.taskqueue.new_tasks import as_dated
from tests import tasks
from tests.steps import begin

NOON = datetime(2031, 5, 6, 12, 0, 0, tzinfo=UTC)
ELSEWHERE = NOON.astimezone(timezone(timedelta(hours=5, minutes=30)))


def new_task():
    request = EnqueueOptions(
        tasks.noop, ["é 𝄞 \"'\\", {"b": 1, "aa": None}], {"a": []}, eta=ELSEWHERE, backoff=[1, 2], lane="x",
        metadata={"ключ": 1.5},
    )  # fmt: skip
    return as_dated(prepare(request), NOON, "default")


def ran():
    return begin()[1]


ROWS = {
    "task": new_task,
    "event": lambda: event(ran(), EventKind.RUNNING, "wörker", ELSEWHERE, {"eta": NOON, "b": ["é"]}),
    "plain event": lambda: event(ran(), EventKind.RUNNING, "worker", NOON),
    "result": lambda: result_of(ran(), Status.SUCCESS, ELSEWHERE, result='{"é": [1, null]}'),
    "empty result": lambda: result_of(ran(), Status.SUCCESS, NOON, result="{}"),
    "failure": lambda: result_of(ran(), Status.FAILED, NOON, error={"message": "é"}),
}


def stored(row, write, using):
    """Its columns as they stand in the file; the guard, which minds a lone event or result, is away meanwhile."""
    table = type(row)._meta.db_table
    with transaction.atomic(using=using), connections[using].cursor() as cursor:
        cursor.execute("SELECT name FROM sqlite_master WHERE type = 'trigger'")
        for (name,) in cursor.fetchall():
            cursor.execute(f"DROP TRIGGER {name}")
        cursor.execute(f"SELECT max(rowid) FROM {table}")
        last = cursor.fetchone()[0] or 0
        write([row])
        columns = ", ".join(
            f"typeof({f.column}), +{f.column}" for f in type(row)._meta.concrete_fields if not is_serial(f)
        )
        cursor.execute(f"SELECT {columns} FROM {table} WHERE rowid > %s", [last])
        found = cursor.fetchall()
        transaction.set_rollback(True, using=using)
    return found


def is_serial(field):
    return field is field.model._meta.auto_field


@pytest.mark.parametrize("on", ["sqlite"], indirect=True)
@pytest.mark.parametrize("kind", ROWS)
def test_a_row_stands_as_the_orm_would_write_it(database, kind):
    row = ROWS[kind]()
    assert type(row) in {Task, TaskEvent, TaskResult}
    ours = stored(row, lambda rows: write_rows(rows, database), database)
    assert ours == stored(row, type(row).objects.using(database).bulk_create, database)
    assert len(ours) == 1
