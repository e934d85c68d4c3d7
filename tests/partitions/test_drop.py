"""Retention by periods: a period goes as a whole once nothing in it is kept any more, and nothing else goes with it."""

from __future__ import annotations

import logging
from contextlib import contextmanager
from datetime import UTC, datetime

import psycopg
import pytest
from django.db import connections, transaction

from django_tasks_retry import call, guard, taskqueue
from django_tasks_retry.checks import check_partitions
from django_tasks_retry.cli.history import shortest_retention
from django_tasks_retry.display.problems import setup_problems
from django_tasks_retry.errors import Abort
from django_tasks_retry.models import Step, Task, TaskEvent, TaskResult
from django_tasks_retry.rules.status import Status
from django_tasks_retry.taskqueue.new_tasks import new_id
from django_tasks_retry.taskqueue.retention import drop as retention
from django_tasks_retry.taskqueue.retention import premake
from django_tasks_retry.taskqueue.retention.layout import Partition, Period, partition_named, read_layout
from django_tasks_retry.verify.audit import verify
from tests import tasks
from tests.partitions.scene import archive_all, done, failed, history_of, partitions, places, today
from tests.rows.plant import unguarded
from tests.steps import enqueue

DAY = 86_400


def is_kept(using):
    *_, audit = verify(using, 60, kept=shortest_retention("default"))
    return audit.breaches == [] and not guard.missing(using)


@contextmanager
def reading(using, sql):
    """Somebody else, in a transaction that stays open."""
    place = connections[using].get_connection_params()
    known = {name: place[name] for name in ("dbname", "user", "password", "host", "port") if place.get(name)}
    with psycopg.connect(**known) as other:
        other.execute(sql)
        yield


def moved(using, travel, count=1, **options):
    made = done(count, **options)
    travel(60)
    archive_all(using)
    return made


def test_a_period_goes_when_its_last_task_is_past_its_retention(parted, travel):
    made, first = moved(parted, travel, 3), today(parted)
    travel(15 * DAY)
    list(taskqueue.prune())
    assert first in partitions(parted), "a task of its last second may have ended a day later"
    travel(DAY)
    list(taskqueue.prune())
    assert first not in partitions(parted)
    assert history_of(made) == (0, 0, 0, 0)
    assert is_kept(parted)


def test_it_is_dropped_without_a_row_being_deleted(parted, travel, monkeypatch):
    moved(parted, travel, 3)
    travel(20 * DAY)
    monkeypatch.setattr("django_tasks_retry.taskqueue.retention.prune.delete_tasks", None)
    list(taskqueue.prune())
    assert Task.objects.count() == 0


@pytest.mark.fault("task_needed_after_its_period")
def test_an_unfinished_task_of_its_time_keeps_its_whole_history(parted, travel):
    moved(parted, travel, 2)
    late = enqueue()
    [lease] = taskqueue.claim("worker")
    taskqueue.release_task(lease, "test")
    first = today(parted)
    travel(40 * DAY)
    list(taskqueue.prune())
    assert first not in partitions(parted)
    assert places(parted, TaskEvent) == {"kept": 2}
    assert list(Task.objects.all()) == [late]
    [lease] = taskqueue.claim("worker")
    taskqueue.complete_task(lease)
    assert [event.kind for event in late.events.all()] == [
        "task.running", "task.released", "task.running", "task.completed",
    ]  # fmt: skip
    assert is_kept(parted)


def test_what_failed_is_kept_for_as_long_as_it_says(parted, travel):
    moved(parted, travel, 2)
    bad = failed()
    travel(40 * DAY)
    list(taskqueue.prune())
    assert history_of([bad]) == (1, 1, 2, 0)
    assert is_kept(parted)
    travel(91 * DAY)
    list(taskqueue.prune())
    assert history_of([bad]) == (0, 0, 0, 0)


def test_steps_of_an_unfinished_task_are_carried_over(parted, travel):
    moved(parted, travel)
    task = enqueue()
    [lease] = taskqueue.claim("worker")
    Step.objects.create(
        task=task, name="charge", kind="step", attempt=1, actor=lease.locked_by, ts=task.created_at, result=7
    )
    taskqueue.release_task(lease, "test")
    travel(40 * DAY)
    list(taskqueue.prune())
    assert places(parted, Step) == {"kept": 1}
    assert is_kept(parted)


@pytest.mark.fault("task_needed_after_its_period")
def test_a_member_that_somebody_still_waits_for_keeps_its_period(parted, travel):
    members = Task.objects.enqueue_many([tasks.noop] * 3, then=call(tasks.noop))
    for lease in taskqueue.claim("worker", limit=2):
        taskqueue.complete_task(lease)
    travel(60)
    assert archive_all(parted) == 2
    travel(40 * DAY)
    list(taskqueue.prune())
    assert history_of(members)[0] == 3
    [told] = [message.msg for message in check_partitions(parted) if "not dropped" in message.msg]
    assert any(f"may still read the result of {member.pk}" in told for member in members)
    [lease] = taskqueue.claim("worker", limit=1)
    taskqueue.complete_task(lease)
    [lease] = taskqueue.claim("worker", limit=1)
    taskqueue.complete_task(lease)
    list(taskqueue.prune())
    assert history_of(members)[0] == 1, "the one that has ended late is within its retention"
    assert is_kept(parted)


@pytest.mark.fault("task_needed_after_its_period")
def test_members_keep_their_period_while_their_callback_runs_or_is_retried(parted, travel):
    members = Task.objects.enqueue_many([tasks.noop] * 2, then=call(tasks.noop))
    for lease in taskqueue.claim("worker", limit=2):
        taskqueue.complete_task(lease)
    travel(60)
    assert archive_all(parted) == 2
    [running] = taskqueue.claim("worker", limit=1)
    travel(40 * DAY)
    list(taskqueue.prune())
    assert history_of(members)[0] == 2
    callback = Task.objects.get(pk=running.id)
    callback.cancel()
    again = callback.retry()
    list(taskqueue.prune())
    assert history_of(members)[0] == 2
    again.cancel()
    list(taskqueue.prune())
    assert history_of(members)[0] == 0
    assert is_kept(parted)


@pytest.mark.fault("task_needed_after_its_period")
def test_a_retried_member_keeps_its_period_while_its_run_is_unfinished(parted, travel):
    """It names no parent, and the task that waits for it may have been woken, or be asleep."""
    root, failed, again, parent = (enqueue() for _ in range(4))
    with transaction.atomic(using=parted), unguarded(parted):
        Task.objects.filter(pk__in=[failed.pk, again.pk, parent.pk]).update(run_id=root.pk)
        Task.objects.filter(pk__in=[failed.pk, again.pk]).update(batch=new_id())
        Task.objects.filter(pk=failed.pk).update(parent=parent.pk)
        Task.objects.filter(pk=again.pk).update(retry_of=failed.pk)
    for lease in taskqueue.claim("worker", limit=3):
        if lease.id == failed.pk:
            taskqueue.fail_task(lease, Abort("for good"))
        else:
            taskqueue.complete_task(lease)
    travel(60)
    archive_all(parted)
    travel(40 * DAY)
    list(taskqueue.prune())
    assert history_of([again])[0] == 1
    parent.cancel()
    list(taskqueue.prune())
    assert history_of([again])[0] == 0


def test_a_longer_retention_of_another_backend_keeps_the_period(parted, travel, settings):
    ours = settings.TASKS["default"]
    moved(parted, travel, 2)
    first = today(parted)
    with connections[parted].cursor() as cursor:
        mark = read_layout(parted).mark.replace('["default"]', '["default", "audit"]')
        cursor.execute(f"COMMENT ON TABLE {TaskResult._meta.db_table} IS '{mark}'")
    settings.TASKS = {"default": ours, "audit": {**ours, "OPTIONS": {"KEEP_SUCCESS": 100 * DAY}}}
    travel(20 * DAY)
    list(taskqueue.prune())
    assert first in partitions(parted)
    assert Task.objects.count() == 0, "those of the other backend went by rows"
    travel(110 * DAY)
    list(taskqueue.prune())
    assert first not in partitions(parted)


def test_a_backend_that_nobody_knows_keeps_the_period(parted, travel, settings):
    moved(parted, travel)
    settings.TASKS = {"renamed": settings.TASKS["default"]}
    assert retention.past_partitions(read_layout(parted), today(parted).end.replace(year=2100)) == []


def test_nothing_is_dropped_where_success_is_kept_for_ever(parted, travel, configure):
    configure(KEEP_SUCCESS=None)
    moved(parted, travel)
    travel(4000 * DAY)
    list(taskqueue.prune())
    assert Task.objects.count() == 1


def test_a_retention_that_is_given_prunes_by_rows(parted, travel):
    moved(parted, travel, 2)
    assert sum(taskqueue.prune(keep={Status.SUCCESS: 5})) == 2
    assert places(parted) == {}


@pytest.mark.fault("history_read_while_dropped")
def test_somebody_who_reads_for_long_puts_it_off_and_stops_nobody(parted, travel, caplog):
    moved(parted, travel)
    first = today(parted)
    travel(20 * DAY)
    with reading(parted, f"SELECT * FROM {TaskEvent._meta.db_table}"), caplog.at_level(logging.WARNING):
        list(taskqueue.prune())
        assert done(1), "others go on"
    assert first in partitions(parted)
    assert "is not dropped yet" in caplog.text
    list(taskqueue.prune())
    assert first not in partitions(parted)


def test_tables_are_made_ahead_of_time_and_once(parted, travel):
    before = partitions(parted)
    assert len(before) == premake.PREMAKE + 1
    list(taskqueue.maintain_partitions())
    assert partitions(parted) == before
    travel(DAY)
    list(taskqueue.maintain_partitions())
    assert partitions(parted) == [*before, before[-1].next]
    assert not guard.missing(parted)


@pytest.mark.parametrize("period", list(Period))
def test_periods_follow_each_other_without_a_gap(period):
    partition = Partition(today_at(period), period)
    assert partition.next.first_id == partition.end_id
    assert partition_named(partition.name) == partition


def today_at(period):
    return period.containing(datetime(2026, 12, 31, 23, 59, tzinfo=UTC)).start


@pytest.mark.fault("no_partition_for_the_present_period")
def test_without_a_table_for_its_time_a_task_is_done_like_any_other(parted, travel, monkeypatch):
    with connections[parted].cursor() as cursor:
        for table in (TaskResult, TaskEvent, Step):
            cursor.execute(f"DROP TABLE {table._meta.db_table}_{today(parted).name}")
        cursor.execute(f"DROP TABLE {Task._meta.db_table}_{today(parted).name}")
    done(2)
    assert places(parted, TaskEvent) == {"kept": 4}
    travel(60)
    list(taskqueue.maintain_partitions())
    assert "" in places(parted), "its period got no table: the default one was written to first"
    travel(20 * DAY)
    list(taskqueue.prune())
    assert Task.objects.count() == 0
    assert TaskEvent.objects.count() == 0


@pytest.mark.fault("no_partition_for_the_present_period")
def test_a_table_that_cannot_be_made_is_told_and_stops_nothing(parted, travel, caplog):
    in_the_way = f"{Task._meta.db_table}_{partitions(parted)[-1].next.name}"
    travel(DAY)
    with connections[parted].cursor() as cursor:
        cursor.execute(f"CREATE TABLE {in_the_way} ()")
    with caplog.at_level(logging.WARNING):
        list(taskqueue.maintain_partitions())
    with connections[parted].cursor() as cursor:
        cursor.execute(f"DROP TABLE {in_the_way}")
    assert "has no partition for" in caplog.text
    assert done(1)
    list(taskqueue.maintain_partitions())
    assert in_the_way.endswith(partitions(parted)[-1].name)


@pytest.mark.fault("no_partition_for_the_present_period")
def test_a_check_and_the_console_tell_what_is_missing_and_what_is_never_dropped(parted, travel, configure):
    assert (check_partitions(parted), list(setup_problems(parted))) == ([], [])
    travel(premake.PREMAKE * DAY)
    [late] = check_partitions(parted)
    [told] = setup_problems(parted)
    assert "There is no partition for" in late.msg
    assert "There is no partition for" in told.text
    assert told.text.endswith("by hand: python manage.py tasks partitions create")
    configure(KEEP_SUCCESS=None)
    assert any("ever dropped" in message.msg for message in check_partitions(parted))


def test_the_files_of_a_period_go_with_it(parted, travel, tmp_path, settings):
    store = {"BACKEND": "django.core.files.storage.FileSystemStorage", "OPTIONS": {"location": str(tmp_path)}}
    settings.STORAGES = {**settings.STORAGES, "payloads": store}
    options = {"PAYLOAD_STORAGE": "payloads", "OFFLOAD_SIZE": 1}
    settings.TASKS = {"default": {**settings.TASKS["default"], "OPTIONS": options}}
    moved(parted, travel, 2, kwargs={"n": 7})
    files = [path.name[-4:] for path in tmp_path.rglob("*-*")]
    assert sorted(files) == ["call", "call", "lt-1", "lt-1"]
    travel(16 * DAY)
    list(taskqueue.prune())
    assert not [*tmp_path.rglob("*-*")]
