"""Servers that can less: what they are known by, and what the guard and the engine then do instead."""

import pytest
from django.db import IntegrityError, connections, transaction
from django.test.utils import CaptureQueriesContext

from django_tasks_retry import checks, guard, taskqueue
from django_tasks_retry.guard.abilities import ALL, PLAIN, YUGABYTE, abilities_of, abilities_of_tables, known_by
from django_tasks_retry.models import Task, TaskEvent, TaskResult
from django_tasks_retry.rules.status import Status
from django_tasks_retry.taskqueue.engines import engine_for
from tests.guard.test_history import write_result
from tests.steps import begin, enqueue, refused_by_the_database, task_in

on_postgresql = pytest.mark.parametrize("on", ["postgresql"], indirect=True)
CACHES = (abilities_of, abilities_of_tables, engine_for)
pytestmark = pytest.mark.plain_layout  # a server that can do the least has no partitions


@pytest.fixture
def forgotten():
    """Forget the servers once more when the database of the test is as it was."""
    yield
    forget()


@pytest.fixture
def plain(monkeypatch, forgotten, database):
    """The database of the test, as if it could do the least."""
    monkeypatch.setenv("ABILITIES", "plain")
    forget()
    guard.install(database)
    yield database
    monkeypatch.undo()
    forget()


def forget():
    for cached in CACHES:
        cached.cache_clear()


@pytest.mark.parametrize(
    ("told", "abilities"),
    [
        ({"server_version": "16.4 (Debian 16.4-1)"}, ALL),
        ({"server_version": "15.12-YB-2025.2.0.0-b131"}, YUGABYTE),
        ({"server_version": "13.0.0", "crdb_version": "CockroachDB CCL v26.3.0"}, PLAIN),
    ],
    ids=["postgresql", "yugabyte", "cockroach"],
)
def test_a_server_is_known_by_what_it_says_at_the_connection(told, abilities):
    assert known_by(told.get) is abilities


@pytest.mark.needs("row_place")
@on_postgresql
def test_ordinary_servers_can_do_all_and_are_asked_nothing_before_an_enqueue(database):
    forget()
    with CaptureQueriesContext(connections[database]) as asked:
        assert abilities_of(database) is ALL
    assert len(asked) == 0
    assert abilities_of_tables(database) is ALL


@on_postgresql
@pytest.mark.parametrize("status", [Status.SUCCESS, Status.FAILED, Status.PENDING, Status.CANCELLED])
def test_a_plain_server_takes_a_task_through_its_life_by_statements_without_places(plain, status):
    with CaptureQueriesContext(connections[plain]) as sent:
        task, _ = task_in(status)
    assert task.status == status
    texts = "\n".join(each["sql"] for each in sent)
    assert "t.id = due.place" in texts
    for ability in ("ctid", "pg_advisory", "pg_notify"):
        assert ability not in texts, ability


@on_postgresql
def test_a_plain_guard_looks_at_row_after_row(plain):
    task, lease = begin()
    with refused_by_the_database(task, plain):
        Task.objects.filter(pk=task.pk).update(
            status="SUCCESS", locked_by=None, lock_expires_at=None, moved_by=lease.signature
        )
    with refused_by_the_database(task, plain):
        TaskEvent.objects.create(task=task, kind="task.completed", attempt=1, actor="worker", ts=task.updated_at)
    with refused_by_the_database(task, plain):
        write_result(task, plain, status="SUCCESS", attempts=7)
    taskqueue.complete_task(lease, "done")
    for model in (TaskResult, TaskEvent):
        with pytest.raises(IntegrityError, match="go with their task"), transaction.atomic(using=plain):
            model.objects.filter(task_id=task.pk).delete()
    Task.objects.get(pk=task.pk).delete()


@on_postgresql
def test_the_check_lists_what_only_the_package_keeps(plain):
    [warning] = checks.check_databases(databases=[plain])
    assert warning.id == "django_tasks_retry.W015"
    assert "truncated" in warning.msg
    assert "before the end of its task" in warning.msg


@on_postgresql
def test_another_guard_than_the_server_needs_is_missed(plain, monkeypatch):
    monkeypatch.delenv("ABILITIES")
    forget()
    assert "dtr_guard_result" in guard.missing(plain)


@on_postgresql
def test_history_of_a_plain_server_stays_in_its_tables(plain):
    assert not engine_for(plain).can_partition


@on_postgresql
def test_who_settles_a_key_of_a_plain_server_locks_its_holders(plain):
    enqueue(unique_key="a")
    with CaptureQueriesContext(connections[plain]) as sent:
        enqueue(unique_key="a", on_conflict="replace")
    assert any("FOR NO KEY UPDATE" in each["sql"] and "unique_key" in each["sql"] for each in sent)
    assert Task.objects.pending().count() == 1
