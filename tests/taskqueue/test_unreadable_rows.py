"""A row is data, never a danger: whatever an INSERT can store, one that cannot be read fails alone."""

from __future__ import annotations

import logging
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from django.db import connections

from django_tasks_retry import taskqueue
from django_tasks_retry.errors import IllegalMove
from django_tasks_retry.models import Task, TaskEvent, TaskResult
from django_tasks_retry.rules.schedules.timing import NO_EXPRESSION
from django_tasks_retry.rules.status import Status
from django_tasks_retry.taskqueue import ClaimMemory, Failed, Released
from django_tasks_retry.taskqueue.database import UNREADABLE
from django_tasks_retry.taskqueue.engines import engine_for
from django_tasks_retry.taskqueue.engines.base import ClaimRequest
from django_tasks_retry.taskqueue.new_tasks import new_id
from tests import tasks
from tests.admin.unguarded import TABLE, without_guard
from tests.steps import claim_one, delay_of, enqueue, now_of, stopped

DIGITS = "9" * 5000
HOSTILE: dict[str, dict[str, Any]] = {
    "a number of 5,000 digits": {"args": f"[{DIGITS}]"},
    "arrays nested 5,000 deep": {"args": "[" * 5000 + "]" * 5000},
    "arguments that are no array": {"args": '{"a": 1}'},
    "keyword arguments that are no object": {"kwargs": "[]"},
    "keyword arguments that are null": {"kwargs": "null"},
    "metadata that is a text": {"metadata": '"x"'},
    "a backoff of 5,000 digits": {"backoff": DIGITS},
    "created in the year 20000": {"created_at": "20000-01-01 00:00:00"},
    "begun in the year 20000": {"started_at": "20000-01-01 00:00:00"},
    "meant for the year 20000": {"slot": "20000-01-01 00:00:00", "interval": 60},
    "a timeout without end": {"timeout": float("inf")},
    "an interval without end": {"interval": float("inf"), "slot": "2020-01-01 00:00:00"},
    "an interval of nothing": {"interval": 1e-300, "slot": "2020-01-01 00:00:00"},
}
POSTGRESQL_ONLY: dict[str, dict[str, Any]] = {
    "due before all time": {"eta": "-infinity"},
    "due before our era": {"eta": "0044-03-15 BC"},
    "created at no time": {"created_at": "infinity"},
    "a timeout that is no number": {"timeout": float("nan")},
}
SQLITE_ONLY: dict[str, dict[str, Any]] = {
    "created on a day that never was": {"created_at": "2020-13-45 00:00:00"},
    "a run that is no id": {"run_id": "x"},
    "a number that is none": {"args": "[NaN]"},
}
KINDS = HOSTILE | POSTGRESQL_ONLY | SQLITE_ONLY


def values_of(task_id: UUID, using: str) -> dict[str, Any]:
    """A row as `enqueue` would write it, due since 2020."""
    stored = str(task_id) if connections[using].vendor == "postgresql" else task_id.hex
    return {
        "id": stored, "run_id": stored, "func_path": "tests.tasks.noop", "args": "[]", "kwargs": "{}",
        "metadata": "{}", "backend": "default", "max_attempts": 3, "timeout": 10.0, "interval": 0.0,
        "created_at": "2020-01-01 00:00:00", "queue": "default", "priority": 50, "eta": "2020-01-01 00:00:00",
        "refunds": 0, "status": "PENDING", "attempts": 0, "updated_at": "2020-01-01 00:00:00",
    }  # fmt: skip


def insert(using: str, **hostile: Any) -> UUID:
    """Past guard and constraints: rows of another release, or of a time without them, are there all the same."""
    task_id = new_id()
    values = values_of(task_id, using) | hostile
    insertion = f"INSERT INTO {TABLE} ({', '.join(values)}) VALUES ({', '.join(['%s'] * len(values))})"
    with without_guard(using), connections[using].cursor() as cursor:
        cursor.execute(insertion, [*values.values()])
    ignore_checks(using, "ON")
    return task_id


def ignore_checks(using: str, switch: str) -> None:
    """SQLite checks a row again with every move. PostgreSQL's checks are gone until the test is rolled back."""
    if connections[using].vendor == "sqlite":
        with connections[using].cursor() as cursor:
            cursor.execute(f"PRAGMA ignore_check_constraints = {switch}")


@pytest.fixture(autouse=True)
def checks(database: str) -> Iterator[None]:
    yield
    ignore_checks(database, "OFF")


def left_running(using: str, worker: str = "house/1", **hostile: Any) -> UUID:
    """Claimed by a process that died before it could say that the row is unreadable."""
    task_id, engine = insert(using, **hostile), engine_for(using)
    memory = ClaimMemory(clock=stopped)
    memory.refresh(engine)
    [(lease, _)] = engine.claim(
        memory.cursor.ranges, 1, ClaimRequest(worker, "default", 60.0, ["tests.tasks.noop"])
    ).unreadable
    assert lease.id == task_id
    return task_id


def status_of(task_id: UUID) -> str:
    return Task.objects.values_list("status", flat=True).get(pk=task_id)


def on_each(kinds: Iterable[str]) -> pytest.MarkDecorator:
    """Each kind of row on each database that can store it."""
    known = {"postgresql": HOSTILE | POSTGRESQL_ONLY, "sqlite": HOSTILE | SQLITE_ONLY}
    wanted = list(kinds)
    cases = [(name, kind) for name, storable in known.items() for kind in wanted if kind in storable]
    return pytest.mark.parametrize(("on", "kind"), cases, indirect=True)


@pytest.fixture
def kind(request: pytest.FixtureRequest) -> dict[str, Any]:
    return KINDS[request.param]


every_kind = on_each(KINDS)


@pytest.mark.fault("row_that_cannot_be_read")
@every_kind
def test_a_row_that_cannot_be_read_fails_alone_and_its_neighbours_run(database, kind, caplog):
    neighbours = [enqueue(priority=n) for n in (0, 60)]
    poison = insert(database, **kind)
    leases = taskqueue.claim("worker", limit=10)
    assert {lease.id for lease in leases} == {task.pk for task in neighbours}
    row = Task.objects.values("status", "attempts", "last_error", "locked_by", "finished_at").get(pk=poison)
    assert (row["status"], row["attempts"], row["locked_by"]) == ("FAILED", 1, None)
    assert (row["last_error"]["code"], row["last_error"]["terminal"]) == ("UNREADABLE", True)
    told = TaskEvent.objects.filter(task_id=poison).values_list("kind", "actor")
    assert list(told) == [("task.running", "worker"), ("task.failed", "worker")]
    result = TaskResult.objects.get(pk=poison)
    assert (result.status, result.error, result.finished_at) == ("FAILED", row["last_error"], row["finished_at"])
    assert f"{poison} fails: The task's row cannot be read." in caplog.text


@pytest.mark.fault("row_that_cannot_be_read")
def test_a_batch_of_nothing_but_unreadable_rows_is_not_the_end_of_the_queue(database):
    for _ in range(3):
        insert(database, args="{}")
    last, memory = enqueue(), ClaimMemory(clock=stopped)
    seen = [lease.id for _ in range(4) for lease in taskqueue.claim("worker", limit=1, memory=memory)]
    assert seen == [last.pk]


@pytest.mark.fault("backoff_of_an_unknown_form")
@pytest.mark.parametrize(
    "backoff", ['{"x": 1}', '{"function": [1]}', '{"base": 1e400}', "[]", "[-1]", '["soon"]', '"soon"', "5", "true"]
)
def test_a_backoff_of_a_form_that_this_version_does_not_know_is_the_default(database, backoff, caplog):
    task_id = insert(database, backoff=backoff)
    lease = claim_one()
    with caplog.at_level(logging.WARNING):
        assert taskqueue.fail_task(lease, ValueError("boom")).status == "PENDING"
    task = now_of(Task(pk=task_id))
    assert 1.5 * 0.7 <= delay_of(task) <= 1.5 * 1.3
    assert f"{task_id} has a form that this version does not know" in caplog.text


@pytest.mark.fault("supervisor_meets_an_unreadable_row")
@every_kind
def test_a_supervisor_releases_an_unreadable_task_without_its_payload(database, kind):
    task_id = left_running(database, **kind)
    [lease] = taskqueue.leases_of("house/1")
    assert (lease.id, lease.locked_by, lease.attempts, lease.queue) == (task_id, "house/1", 1, "default")
    [receipt] = taskqueue.finish([Released(lease, "its child died", actor="house")])
    assert receipt.accepted
    assert status_of(task_id) == "PENDING"


@pytest.mark.fault("supervisor_meets_an_unreadable_row")
@every_kind
def test_a_supervisor_times_an_unreadable_task_out(database, kind):
    task_id = left_running(database, **kind)
    [receipt] = taskqueue.finish(
        [Failed(lease, ValueError("stuck"), "house") for lease in taskqueue.leases_of("house/1")]
    )
    assert (receipt.accepted, receipt.status) == (True, "PENDING")
    assert status_of(task_id) == "PENDING"


@pytest.mark.fault("supervisor_meets_an_unreadable_row")
@every_kind
@pytest.mark.parametrize(("budget", "status"), [(3, "PENDING"), (1, "FAILED")])
def test_an_unreadable_task_is_recovered_beside_others(database, kind, budget, status):
    other = enqueue(max_attempts=1)
    claim_one("house/1")
    task_id = left_running(database, max_attempts=budget, **kind)
    recovered = taskqueue.recover(actor="house", dead="house/1")
    assert {receipt.lease.id: receipt.status for receipt in recovered} == {task_id: status, other.pk: "FAILED"}
    assert (status_of(task_id), status_of(other.pk)) == (status, "FAILED")


def test_leases_are_listed_without_what_the_tasks_were_asked_to_do(database):
    enqueue(tasks.noop, "secret", metadata={"a": 1})
    claimed = claim_one("house/1")
    [lease] = taskqueue.leases_of("house/1")
    assert lease == claimed._replace(args=[], kwargs={}, metadata={})


@pytest.mark.fault("operator_meets_an_unreadable_row")
@every_kind
def test_an_unreadable_task_is_cancelled_among_others(database, kind):
    poison, other = insert(database, **kind), enqueue()
    assert taskqueue.cancel([poison, other.pk]).done == sorted([poison, other.pk])
    assert {status_of(poison), status_of(other.pk)} == {"CANCELLED"}


@pytest.mark.fault("operator_meets_an_unreadable_row")
@on_each(name for name in HOSTILE if "year" not in name)
def test_a_task_whose_call_cannot_be_read_is_not_retried_among_others(database, kind):
    poison, other = insert(database, **kind), enqueue()
    taskqueue.cancel([poison, other.pk])
    [again] = taskqueue.retry([poison, other.pk])
    assert again.retry_of_id == other.pk


@pytest.mark.fault("operator_meets_an_unreadable_row")
def test_the_retry_of_an_unreadable_task_says_why_it_is_refused(database):
    task = Task.objects.only("pk", "backend", "status").get(pk=insert(database, args=f"[{DIGITS}]"))
    task.cancel()
    with pytest.raises(IllegalMove, match="cannot be read, so its call cannot be repeated"):
        task.retry()


@pytest.mark.fault("operator_meets_an_unreadable_row")
@every_kind
def test_an_unreadable_task_is_pruned(database, kind):
    poison = insert(database, **kind)
    assert taskqueue.claim("worker") == []
    assert list(taskqueue.prune(keep={Status.FAILED: -1.0})) == [1]
    assert not Task.objects.filter(pk=poison).exists()


def test_one_list_says_what_reading_a_row_may_raise():
    package = Path(taskqueue.__file__).parents[1]
    lists = [file for file in package.rglob("*.py") if re.search(r"^UNREADABLE\w* = ", file.read_text("utf-8"), re.M)]
    assert [file.name for file in lists] == ["database.py"]
    assert set(NO_EXPRESSION) < set(UNREADABLE)
