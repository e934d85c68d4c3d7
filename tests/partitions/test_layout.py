"""A partitioned history reads and writes as a whole one, and can be made one again."""

from __future__ import annotations

from collections.abc import Callable
from itertools import count
from typing import Any

import pytest
from django.core.management import call_command
from django.db import connections

from django_tasks_retry import guard, taskqueue
from django_tasks_retry.cli.history import shortest_retention
from django_tasks_retry.errors import CannotPartition
from django_tasks_retry.models import Task, TaskEvent, TaskResult
from django_tasks_retry.taskqueue import create_schedule, run_schedule_now
from django_tasks_retry.taskqueue.retention import convert, maintain
from django_tasks_retry.taskqueue.retention.convert import bound_until, partition_history, undo_partitioning
from django_tasks_retry.taskqueue.retention.layout import Period, read_layout
from django_tasks_retry.verify.audit import verify
from tests.partitions.scene import archive_all, done, failed, places, today
from tests.races.together import together
from tests.steps import enqueue
from tests.tasks import noop


def is_kept(using):
    *_, audit = verify(using, 60, kept=shortest_retention("default"))
    return audit.breaches == [] and not guard.missing(using)


def test_what_has_succeeded_moves_to_its_period_and_is_read_as_before(parted, travel):
    [task], other = done(), enqueue()
    travel(maintain.SETTLED_SECONDS + 1)
    assert archive_all(parted) == 1
    assert places(parted) == {today(parted).name: 1, "": 1}
    assert Task.objects.get(pk=task.pk).outcome.result == {"n": 1}
    assert [event.kind for event in task.events.all()] == ["task.running", "task.completed"]
    assert set(Task.objects.values_list("pk", flat=True)) == {task.pk, other.pk}
    assert is_kept(parted)


def test_what_is_unfinished_or_has_failed_or_is_of_a_schedule_stays(parted, travel):
    done()
    failed()
    enqueue().cancel()
    create_schedule(name="nightly", task=noop, every=3600)
    scheduled = run_schedule_now("nightly")
    taskqueue.complete_task(taskqueue.claim("worker")[0])
    enqueue()
    travel(60)
    assert archive_all(parted) == 1
    assert places(parted)[""] == 4
    assert Task.objects.get(pk=scheduled.pk).status == "SUCCESS"


def test_what_has_just_ended_stays_for_whoever_waits_for_a_lock_on_it(parted):
    done()
    assert archive_all(parted) == 0


def test_what_ended_long_after_its_period_stays(parted, travel):
    enqueue()
    travel(3 * 86_400)
    taskqueue.complete_task(taskqueue.claim("worker")[0])
    travel(3 * 86_400 + 60)
    assert archive_all(parted) == 0


def test_a_task_that_moved_can_be_retried_and_stays_as_it_was(parted, travel):
    [task] = done(unique_key="one")
    travel(60)
    archive_all(parted)
    again = Task.objects.get(pk=task.pk).retry()
    assert again.retry_of_id == task.pk
    assert Task.objects.get(pk=task.pk).retries.get() == again
    assert enqueue(unique_key="one").already_enqueued, "the retry holds the key"


def test_partitioning_twice_changes_nothing(parted):
    before = read_layout(parted)
    assert partition_history(parted, Period.HOUR, ["other"]) == before


def test_what_was_stored_before_stays_where_it_was_and_counts_on(whole, travel):
    tasks, task = done(3), failed()
    last = TaskEvent.objects.order_by("id").last().pk
    partition_history(whole, Period.DAY, ["default"])
    assert places(whole, TaskEvent) == {"before": 8}
    assert places(whole) == {"": 4}
    retried = Task.objects.get(pk=task.pk).retry()
    assert retried.events.get().pk == last + 1
    assert places(whole, TaskEvent) == {"before": 9}, "its id lies before the first period"
    assert Task.objects.filter(pk__in=[t.pk for t in tasks], outcome__status="SUCCESS").count() == 3
    assert is_kept(whole)


@pytest.mark.fault("history_partitioned_under_load")
def test_tasks_are_enqueued_and_done_while_history_is_partitioned_and_back(whole):
    done(20)

    def work():
        done(1)

    together(lambda: partition_history(whole, Period.DAY, ["default"]), *[work] * 6)
    together(lambda: undo_partitioning(whole), *[work] * 6)
    assert Task.objects.unfinished().count() == 0
    assert TaskResult.objects.count() == Task.objects.count() == 32
    assert is_kept(whole)


def interrupt(using, monkeypatch):
    """Begin to partition, and stop before anything is changed over."""

    def validate(table, using):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(convert, "validate", validate)
        with pytest.raises(KeyboardInterrupt):
            partition_history(using, Period.DAY, ["default"])


@pytest.mark.fault("partition_change_interrupted")
def test_a_partitioning_that_was_interrupted_is_completed_by_the_next(whole, monkeypatch):
    done(2)
    interrupt(whole, monkeypatch)
    assert read_layout(whole) is None
    until = bound_until(whole)
    done(1)
    assert partition_history(whole, Period.DAY, ["default"]).partitions[0].start == until
    assert is_kept(whole)


@pytest.mark.fault("partition_change_interrupted")
def test_a_partitioning_that_nobody_completes_is_taken_back_before_it_refuses_rows(whole, monkeypatch, travel):
    done(1)
    interrupt(whole, monkeypatch)
    list(taskqueue.maintain_partitions())
    assert bound_until(whole) is not None
    travel(2 * 86_400)
    list(taskqueue.maintain_partitions())
    assert bound_until(whole) is None


class Killed(BaseException):
    """Ends a process before one of its statements, as far as the database can tell."""


def killed_before(nth: int, verb: Callable[[], Any], using: str) -> bool:
    """Do it, but lose the connection instead of the nth statement. Return whether there was such a statement."""
    statements = count(1)

    def kill(execute: Any, sql: Any, params: Any, many: Any, context: Any) -> Any:
        if next(statements) < nth:
            return execute(sql, params, many, context)
        connections[using].connection.close()
        raise Killed

    try:
        with connections[using].execute_wrapper(kill):
            verb()
    except Killed:
        connections[using].close()
        return True
    return False


@pytest.mark.long
@pytest.mark.fault("partition_change_interrupted")
def test_a_change_that_is_killed_before_any_statement_loses_nothing_and_is_completed_by_the_next(whole):
    made = done(3)
    changes = [lambda: partition_history(whole, Period.DAY, ["default"]), lambda: undo_partitioning(whole)]
    for change in changes:
        nth = 1
        while killed_before(nth, change, whole):
            made += done(1)
            change()
            assert is_kept(whole)
            (undo_partitioning if read_layout(whole) else lambda using: changes[0]())(whole)
            nth += max(1, nth // 2)
        made += done(1)
    assert TaskResult.objects.filter(task_id__in=[task.pk for task in made]).count() == len(made)


def test_it_is_brought_back_as_it_was(whole, travel):
    def shape():
        with connections[whole].cursor() as cursor:
            cursor.execute(
                "SELECT c.relname, c.relkind, t.relname FROM pg_class c LEFT JOIN pg_index i ON i.indexrelid = c.oid "
                "LEFT JOIN pg_class t ON t.oid = i.indrelid WHERE c.relnamespace = 'public'::regnamespace "
                "AND (c.relname LIKE 'django_tasks_retry%%' OR c.relname LIKE 'dtr_%%') ORDER BY 1"
            )
            return cursor.fetchall()

    before = shape()
    partition_history(whole, Period.DAY, ["default"])
    made = done(3)
    travel(60)
    archive_all(whole)
    undo_partitioning(whole)
    assert shape() == before
    assert TaskResult.objects.filter(task_id__in=[task.pk for task in made]).count() == 3
    assert places(whole) == {"": 3}
    assert is_kept(whole)


def test_django_sees_no_change_of_the_models(parted):
    call_command("makemigrations", "--check", "--dry-run", "django_tasks_retry", verbosity=0)


def test_a_foreign_key_that_the_database_checks_is_named(whole):
    with connections[whole].cursor() as cursor:
        cursor.execute("CREATE TABLE receipt (task_id uuid REFERENCES django_tasks_retry_task)")
    try:
        with pytest.raises(CannotPartition, match="receipt refer"):
            partition_history(whole, Period.DAY, ["default"])
    finally:
        with connections[whole].cursor() as cursor:
            cursor.execute("DROP TABLE receipt")


def test_sqlite_is_told_that_it_cannot():
    with pytest.raises(CannotPartition, match="PostgreSQL only"):
        partition_history("default", Period.DAY, ["default"])
