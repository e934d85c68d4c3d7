"""Nothing goes before its time: no deletion, no replacement, no emptied table; but Django's own flush works."""

from __future__ import annotations

import pytest
from django.core.management import call_command
from django.db import IntegrityError, connections, transaction

from django_tasks_retry import taskqueue
from django_tasks_retry.models import Step, Task, TaskEvent, TaskResult
from django_tasks_retry.rules.status import FINISHED, Status
from tests.steps import begin, enqueue, everything, refused_by_the_database, task_in

TABLES = [model._meta.db_table for model in (Task, TaskResult, TaskEvent)]
LIVES = (*FINISHED, Status.RUNNING, Status.PENDING)
on_postgresql = pytest.mark.parametrize("on", ["postgresql"], indirect=True)
on_sqlite = pytest.mark.parametrize("on", ["sqlite"], indirect=True)


@pytest.mark.fault("deleted_replaced_truncated")
@pytest.mark.parametrize("status", [Status.PENDING, Status.RUNNING])
def test_an_unfinished_task_is_not_deleted_by_a_queryset(database, status):
    task, _ = task_in(status)
    with refused_by_the_database(task, database):
        Task.objects.all().delete()


@pytest.mark.parametrize("status", FINISHED)
@pytest.mark.parametrize("delete", [Task.delete, lambda task: Task.objects.filter(pk=task.pk).delete()])
def test_a_finished_task_takes_its_history_along(database, status, delete):
    task, _ = task_in(status)
    kept, _ = task_in(status)
    delete(Task.objects.get(pk=task.pk))
    assert Task.objects.get() == kept
    for model in (TaskResult, TaskEvent, Step):
        assert not model.objects.filter(task_id=task.pk).exists()
    assert TaskResult.objects.get().task_id == kept.pk
    assert TaskEvent.objects.filter(task=kept).exists()


@pytest.mark.fault("deleted_replaced_truncated")
def test_a_flush_empties_everything(committed):
    for status in LIVES:
        task_in(status)
    call_command("flush", database=committed, interactive=False, verbosity=0)
    assert not any(model.objects.exists() for model in (Task, TaskResult, TaskEvent))


@pytest.mark.needs("transition_tables")
@pytest.mark.fault("deleted_replaced_truncated")
@on_postgresql
@pytest.mark.parametrize("tables", [TABLES[:1], TABLES[1:2], TABLES[2:], TABLES[1:], TABLES[:2]], ids=str)
def test_some_of_the_tables_are_not_truncated(database, tables):
    task, _ = task_in(Status.SUCCESS)
    before = everything(task)
    with pytest.raises(IntegrityError, match="only be truncated together"), transaction.atomic(using=database):
        connections[database].cursor().execute(f"TRUNCATE {', '.join(tables)}")
    assert everything(task) == before


@pytest.mark.fault("deleted_replaced_truncated")
@on_postgresql
def test_all_of_the_tables_are_truncated_together(database):
    task_in(Status.SUCCESS)
    connections[database].cursor().execute(f"TRUNCATE {', '.join(TABLES)}")
    assert not Task.objects.exists()


NEW = {"args": "'[1]'", "status": "'PENDING'", "attempts": "0", "refunds": "0"}
BLANK = (
    "finished_at",
    "started_at",
    "last_attempt_at",
    "last_error",
    "fingerprint",
    "moved_by",
    "locked_by",
    "progress",
)
NEW |= dict.fromkeys((*BLANK, "lock_expires_at"), "NULL")


def replace(using, verb="INSERT OR REPLACE", **changes):
    names = [field.column for field in Task._meta.concrete_fields]
    values = ", ".join((NEW | changes).get(name, name) for name in names)
    connections[using].cursor().execute(
        f"{verb} INTO {TABLES[0]} ({', '.join(names)}) SELECT {values} FROM {TABLES[0]}"
    )


@pytest.mark.fault("deleted_replaced_truncated")
@on_sqlite
@pytest.mark.parametrize("status", list(Status))
def test_a_row_is_not_replaced(database, status):
    """PostgreSQL has no such statement."""
    task, _ = task_in(status)
    with refused_by_the_database(task, database):
        replace(database)


@pytest.mark.fault("deleted_replaced_truncated")
@on_sqlite
def test_the_holder_of_a_unique_key_is_not_replaced(database):
    task, _ = begin(unique_key="taken")
    with refused_by_the_database(task, database):
        replace(database, id=f"'{'1' * 32}'")
    other = enqueue(queue="bulk", unique_key="taken")
    with refused_by_the_database(task, database):
        connections[database].cursor().execute(
            f"UPDATE OR REPLACE {TABLES[0]} SET queue = 'bulk' WHERE status = 'RUNNING'"
        )
    with refused_by_the_database(task, database):
        connections[database].cursor().execute(
            f"UPDATE OR REPLACE {TABLES[0]} SET queue = 'default' WHERE id = %s", [other.pk.hex]
        )


@pytest.mark.fault("deleted_replaced_truncated")
@on_sqlite
def test_an_event_is_not_replaced(database):
    task, _ = begin()
    event = TaskEvent.objects.get()
    with refused_by_the_database(task, database):
        connections[database].cursor().execute(
            f"INSERT OR REPLACE INTO {TABLES[2]} (id, task_id, kind, ts, attempt, actor, data) "
            f"SELECT id, task_id, kind, ts, attempt, 'me', data FROM {TABLES[2]} WHERE id = %s",
            [event.pk],
        )


@pytest.mark.fault("deleted_replaced_truncated")
@on_sqlite
@pytest.mark.parametrize("long", [{"queue": "q" * 65}, {"func_path": "p" * 256}, {"unique_key": "k" * 201}], ids=str)
def test_a_text_that_is_longer_than_its_column(database, long):
    """Which PostgreSQL's types refuse."""
    task = enqueue()
    values = {name: f"'{text}'" for name, text in long.items()}
    with refused_by_the_database(task, database):
        replace(database, verb="INSERT", id=f"'{'1' * 32}'", **values)


def test_what_is_pruned_is_deleted(database, travel):
    task_in(Status.SUCCESS)
    travel(100)
    assert sum(taskqueue.prune(keep={Status.SUCCESS: 10})) == 1
    assert not TaskEvent.objects.exists()
