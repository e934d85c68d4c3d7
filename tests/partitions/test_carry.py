"""A period with many failed, cancelled and unfinished tasks is dropped like any other, and they keep their history."""

from __future__ import annotations

import logging

import pytest
from django.db import connections

from django_tasks_retry import taskqueue
from django_tasks_retry.checks import check_partitions
from django_tasks_retry.clock import now
from django_tasks_retry.models import Step, Task, TaskEvent, TaskResult
from django_tasks_retry.rules.status import Status
from django_tasks_retry.taskqueue.retention import carry
from django_tasks_retry.taskqueue.retention.convert import undo_partitioning
from tests.partitions.scene import failed, history_of, partitions, places, today
from tests.partitions.test_drop import DAY, is_kept, moved, reading
from tests.steps import enqueue


@pytest.fixture
def many(parted, travel, monkeypatch):
    """A period past its retention, with more tasks to keep than are carried at once: five failed, two unfinished."""
    monkeypatch.setattr(carry, "CARRIED_AT_ONCE", 2)
    monkeypatch.setattr(carry, "PAGE", 2)
    moved(parted, travel, 3)
    bad = [failed() for _ in range(5)]
    waiting = [enqueue(), enqueue()]
    for lease in taskqueue.claim("worker", limit=2):
        taskqueue.release_task(lease, "test")
    travel(40 * DAY)
    return bad, waiting


def copies(using):
    with connections[using].cursor() as cursor:
        cursor.execute("SELECT relname FROM pg_class WHERE relkind = 'r' AND relname ~ '_kept_p' ORDER BY 1")
        return [name for (name,) in cursor.fetchall()]


def orphans():
    tasks = Task.objects.values("pk")
    return [model.objects.exclude(task_id__in=tasks).count() for model in (TaskResult, TaskEvent, Step)]


def copied():
    """A pruning whose next page drops the period: the history of all seven tasks is copied."""
    pages = taskqueue.prune_pages()
    assert [next(pages) for _ in range(5)] == [0] * 5
    return pages


def write_step(lease, using):
    Step.objects.create(
        task_id=lease.id, name="charge", kind="step", attempt=lease.attempts, actor=lease.locked_by, ts=now(using),
        result=7,
    )  # fmt: skip


@pytest.mark.fault("task_needed_after_its_period")
def test_however_many_failed_their_period_goes_and_they_keep_their_history(parted, many):
    (bad, waiting), first = many, today(parted)
    list(taskqueue.prune())
    assert first not in partitions(parted)
    assert Task.objects.count() == 7
    assert history_of(bad) == (5, 5, 10, 0)
    assert history_of(waiting) == (2, 0, 4, 0)
    assert places(parted, TaskEvent) == {f"kept_{first.name}": 14}
    assert is_kept(parted)


def test_tasks_of_a_dropped_period_go_on_and_are_pruned_by_their_own_retention(parted, many, travel):
    bad, _ = many
    list(taskqueue.prune())
    [lease] = taskqueue.claim("worker", limit=1)
    taskqueue.complete_task(lease)
    assert is_kept(parted)
    travel(91 * DAY)
    list(taskqueue.prune())
    assert history_of(bad) == (0, 0, 0, 0)
    list(taskqueue.prune())
    assert places(parted, TaskEvent) == {"kept": 2}, "few are left, so they need no tables of their own"
    assert copies(parted) == []
    assert is_kept(parted)


@pytest.mark.fault("task_needed_after_its_period")
def test_tasks_that_move_while_their_history_is_copied_lose_nothing(parted, many):
    (_, waiting), first = many, today(parted)
    [running] = taskqueue.claim("worker", limit=1)
    pages = copied()
    write_step(running, parted)
    [finished] = taskqueue.claim("worker", limit=1)
    write_step(finished, parted)
    taskqueue.complete_task(finished)
    list(pages)
    assert first not in partitions(parted)
    assert history_of([task for task in waiting if task.pk == running.id]) == (1, 0, 3, 1)
    assert history_of([task for task in waiting if task.pk == finished.id]) == (1, 1, 4, 1)
    taskqueue.complete_task(running)
    assert is_kept(parted)


@pytest.mark.fault("task_needed_after_its_period")
def test_tasks_that_are_pruned_while_their_history_is_copied_leave_none(parted, many):
    pages = copied()
    list(taskqueue.prune(keep={Status.FAILED: 1}))
    list(pages)
    assert Task.objects.count() == 2
    assert orphans() == [0, 0, 0]
    assert is_kept(parted)


@pytest.mark.fault("task_needed_after_its_period")
def test_a_copy_that_was_interrupted_is_made_anew(parted, many):
    (bad, _), first = many, today(parted)
    pages = taskqueue.prune_pages()
    next(pages)
    pages.close()
    assert len(copies(parted)) == 3
    assert is_kept(parted)
    list(taskqueue.prune())
    assert history_of(bad) == (5, 5, 10, 0)
    assert first not in partitions(parted)


def test_the_way_back_leaves_no_copy_behind(parted, many):
    bad, _ = many
    next(taskqueue.prune_pages())
    undo_partitioning(parted)
    assert copies(parted) == []
    assert history_of(bad) == (5, 5, 10, 0)


@pytest.mark.fault("task_needed_after_its_period")
@pytest.mark.parametrize("is_ahead", [True, False], ids=["dropped", "begun"])
def test_two_who_drop_the_same_period_lose_nothing(parted, many, caplog, is_ahead):
    (bad, waiting), first = many, today(parted)
    slow, fast = taskqueue.prune_pages(), taskqueue.prune_pages()
    next(slow)
    next(fast)
    with caplog.at_level(logging.WARNING):
        list(fast if is_ahead else slow)
        list(slow if is_ahead else fast)
    assert "is not dropped yet" in caplog.text
    list(taskqueue.prune())
    assert first not in partitions(parted)
    assert (history_of(bad), history_of(waiting)) == ((5, 5, 10, 0), (2, 0, 4, 0))
    assert is_kept(parted)


@pytest.mark.fault("history_read_while_dropped")
def test_somebody_who_writes_to_the_period_for_long_puts_it_off(parted, many, caplog):
    (bad, _), first = many, today(parted)
    table = f"{TaskEvent._meta.db_table}_{first.name}"
    with reading(parted, f"LOCK TABLE {table} IN ROW EXCLUSIVE MODE"), caplog.at_level(logging.WARNING):
        list(taskqueue.prune())
    assert "is not dropped yet" in caplog.text
    assert first in partitions(parted)
    list(taskqueue.prune())
    assert first not in partitions(parted)
    assert history_of(bad) == (5, 5, 10, 0)


def test_a_period_that_nobody_drops_is_told(parted, many):
    [told] = [message.msg for message in check_partitions(parted) if "not dropped" in message.msg]
    assert f"The period {today(parted).name} is past its retention" in told
    assert "no worker has dropped it" in told
