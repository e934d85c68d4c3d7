"""Arguments of a new task: shapes and sizes that every reader can hold, whoever inserts it."""

from __future__ import annotations

import math
from datetime import UTC, datetime, timedelta
from uuid import uuid4

import pytest
from django.db import DatabaseError, connections, transaction

from django_tasks_retry import taskqueue
from django_tasks_retry.models import Task
from tests.steps import claim_one, enqueue

COLUMNS = {
    "id": "%s", "run_id": "%s", "func_path": "'tests.tasks.noop'", "args": "'[]'", "kwargs": "'{}'",
    "metadata": "'{}'", "backend": "'default'", "max_attempts": "3", "timeout": "10", "interval": "0",
    "created_at": "{now}", "queue": "'default'", "priority": "0", "eta": "{now}", "refunds": "0",
    "status": "'PENDING'", "attempts": "0", "updated_at": "{now}", "backoff": "NULL", "slot": "NULL",
}  # fmt: skip


def insert(using, **changes):
    task_id = uuid4() if connections[using].vendor == "postgresql" else uuid4().hex
    columns = COLUMNS | changes
    values = ", ".join(columns.values()).replace("{now}", "django_tasks_retry_now()")
    with transaction.atomic(using=using), connections[using].cursor() as cursor:
        sql = f"INSERT INTO django_tasks_retry_task ({', '.join(columns)}) VALUES ({values})"
        cursor.execute(sql, [task_id, task_id])


REFUSED = [
    {"args": "'{\"a\": 1}'"},
    {"args": "'7'"},
    {"args": "'null'"},
    {"kwargs": "'[1]'"},
    {"kwargs": "'null'"},
    {"metadata": "'\"text\"'"},
    {"backoff": "'{\"x\": 1}'"},
    {"backoff": "'\"text\"'"},
    {"backoff": '\'{"base": 1, "factor": 2}\''},
    {"timeout": "'Infinity'"},
    {"timeout": "'NaN'"},
    {"interval": "'Infinity'", "slot": "{now}"},
    {"interval": "1e-300", "slot": "{now}"},
    {"max_attempts": "2147483647"},
    {"created_at": "'20000-01-01'"},
    {"eta": "'0044-03-15 BC'"},
    {"eta": "'infinity'"},
    {"eta": "'-infinity'"},
    {"slot": "'9999-12-31'"},
    {"updated_at": "'0001-01-01'"},
]


@pytest.mark.fault("rows_that_nobody_could_read")
@pytest.mark.parametrize("poison", REFUSED, ids=lambda poison: "-".join(f"{k}={v}" for k, v in poison.items()))
def test_a_row_that_nobody_could_read_is_refused(database, poison):
    if connections[database].vendor == "sqlite":
        poison = {name: value.replace("'Infinity'", "9e999").replace("'NaN'", "NULL") for name, value in poison.items()}
    with pytest.raises(DatabaseError):
        insert(database, **poison)
    assert not Task.objects.exists()


@pytest.mark.fault("rows_that_nobody_could_read")
def test_a_call_that_is_far_too_long_is_refused(database):
    if connections[database].vendor == "postgresql":
        long = "(SELECT jsonb_agg(1e131000) FROM generate_series(1, 700))"  # 20 KB that are printed as 90 MB
    else:
        long = "'[\"' || hex(zeroblob(34000000)) || '\"]'"
    with pytest.raises(DatabaseError):
        insert(database, args=long)


@pytest.mark.parametrize(
    "sound",
    [
        {},
        {"args": "'[1, 2]'", "kwargs": "'{\"a\": []}'", "metadata": "'{\"b\": null}'"},
        {"backoff": "'[1, 2]'"},
        {"backoff": '\'{"function": "a.b"}\''},
        {"backoff": '\'{"base": 1, "factor": 2, "cap": 3, "jitter": 0}\''},
        {"eta": "'1900-01-01 00:00:00.000000'"},
        {"interval": "0.001", "slot": "{now}"},
    ],
    ids=str,
)
def test_what_the_queue_itself_writes_is_taken(database, sound):
    insert(database, **sound)
    assert Task.objects.exists()


@pytest.mark.fault("rows_that_nobody_could_read")
def test_a_series_ends_with_the_times_that_can_be_stored(database):
    """And its last occurrence stops none of those that are recorded with it."""
    other = enqueue()
    insert(database, slot="'9099-12-31 00:00:00.000000'", interval="3e8")
    leases = taskqueue.claim("w", limit=2)
    receipts = taskqueue.finish([taskqueue.Completed(lease) for lease in leases])
    assert [receipt.final_status for receipt in receipts] == ["SUCCESS", "SUCCESS"]
    assert not Task.objects.pending().exists()
    assert other.pk in {lease.id for lease in leases}


def test_the_largest_times_and_numbers_that_the_queue_accepts_can_be_stored(database):
    latest = datetime(9000, 12, 31, 23, 59, 59, 999999, tzinfo=UTC)
    enqueue(eta=latest, interval=timedelta(days=3650), timeout=timedelta(days=3650), max_attempts=10_000)
    enqueue(eta=datetime(1900, 1, 1, tzinfo=UTC), interval=0.001)
    lease = claim_one()
    assert math.isclose(lease.interval, 0.001)
