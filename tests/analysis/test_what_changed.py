"""The first failure of a group is compared with the last success before it."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import uuid4

import pytest
from django.db import connections
from django.db.migrations.recorder import MigrationRecorder

from django_tasks_retry import clock, registry, taskqueue
from django_tasks_retry.admin.functions import counts_of_a_day, read_times
from django_tasks_retry.analysis import what_changed as module
from django_tasks_retry.analysis.what_changed import sampled, sentences, what_changed
from django_tasks_retry.display.scope import current_scope
from django_tasks_retry.models import Task
from django_tasks_retry.rules.transitions import EventKind
from django_tasks_retry.taskqueue import statistics
from tests import tasks

OLD, NEW = "web-1-100-aaa", "web-1-200-bbb"


def sign_on(worker: str, release: str, **versions: str) -> None:
    taskqueue.register_worker(
        worker, "default", host="web-1", pid=1, version="1.0", queues=["*"], exclude=[], tasks=registry.known_paths(),
        processes=1, slots=8, release=release, versions={"python": "3.13.0", **versions},
    )  # fmt: skip


def run(worker: str, *arguments: dict[str, Any], error: Exception | None = None) -> list[Task]:
    stored = Task.objects.enqueue_many([{"func": tasks.noop, "kwargs": each, "max_attempts": 1} for each in arguments])
    leases = taskqueue.claim(f"{worker}/1", limit=len(stored))
    taskqueue.finish(
        [taskqueue.Failed(lease, error) if error else taskqueue.Completed(lease, None) for lease in leases]
    )
    return stored


@pytest.fixture
def broken(database, travel) -> str:
    """It worked; then a release, a migration and a pause; then it fails for orders without a currency."""
    sign_on(OLD, "v41", requests="2.31")
    run(OLD, *({"order": n, "currency": "EUR", "token": "planted"} for n in range(5)))
    travel(60)
    MigrationRecorder(connections[database]).record_applied("shop", "0042_currency")
    applied = MigrationRecorder(connections[database]).migration_qs.get(app="shop")
    applied.applied = clock.now(database)
    applied.save(using=database)
    taskqueue.pause("emails", by="olga", reason="INC-204 token=planted")
    travel(100)
    sign_on(NEW, "v42", requests="2.32")
    failed = run(NEW, *({"order": n, "currency": None, "token": "planted"} for n in range(4)), error=KeyError("EUR"))
    return str(Task.objects.get(pk=failed[0].pk).fingerprint)


def told(fingerprint: str, *, can_see_payload: bool = True) -> list[str]:
    changed = what_changed(fingerprint, Task.objects.db, can_see_payload=can_see_payload)
    assert changed is not None
    return sentences(changed, can_see_payload=can_see_payload)


def test_everything_that_changed_in_between_is_told(broken):
    lines = told(broken)
    assert lines[0].startswith("It first failed at ")
    assert lines[1] == "currency is of type null: in 4 of 4 failures, and in 0 of 5 successes."
    assert "The release changed from v41 to v42." in lines
    assert "requests: 2.31 before, 2.32 since." in lines
    assert "Migration shop.0042_currency was applied 1 min 40 s before the first failure." in lines
    assert any("queue.paused: emails, by olga" in line for line in lines)
    assert "planted" not in str(lines)


@pytest.mark.fault("arguments_leaked_by_similar_failures")
def test_who_may_not_see_arguments_is_told_nothing_of_them(broken):
    lines = told(broken, can_see_payload=False)
    assert "currency" not in str(lines).replace("0042_currency", "")
    assert "INC-204" not in str(lines)
    assert "The release changed from v41 to v42." in lines


def test_what_nobody_knows_is_said(database):
    [failed] = run("gone-1-1-a", {"n": 1}, error=KeyError("x"))
    lines = told(str(Task.objects.get(pk=failed.pk).fingerprint))
    assert "no success of it is stored from shortly before" in lines[0]
    assert "The release of its worker is not known" in lines[1]
    assert what_changed("no such group", database, can_see_payload=True) is None


def test_the_last_success_is_the_one_that_finished_last_however_it_was_enqueued(database, travel):
    """A task that was enqueued after the one that fails, and ran before it."""
    sign_on(OLD, "v41")
    run(OLD, {"n": 0})
    [failing] = Task.objects.enqueue_many([{"func": tasks.noop, "max_attempts": 2, "priority": -1}])
    [earlier] = run(OLD, {"n": 1})
    travel(60)
    [lease] = taskqueue.claim(f"{OLD}/1")
    taskqueue.fail_task(lease, KeyError("x"))
    changed = what_changed(str(Task.objects.get(pk=failing.pk).fingerprint), database, can_see_payload=True)
    assert changed is not None
    assert changed.success is not None
    assert (changed.success.task, changed.failures_sampled) == (earlier.pk, 1)


def test_an_end_whose_event_was_deleted_is_dated_by_its_row(database):
    finished, updated = datetime(2026, 1, 2, tzinfo=UTC), datetime(2026, 1, 3, tzinfo=UTC)
    row = Task(pk=uuid4(), finished_at=finished, updated_at=updated)
    assert module.end_of(row, EventKind.FAILED, database).at == finished
    row.finished_at = None  # it is still retrying
    assert module.end_of(row, EventKind.FAILED, database).at == updated


def test_migrations_of_the_package_are_left_out(database, broken):
    recorder = MigrationRecorder(connections[database])
    recorder.migration_qs.filter(app="shop").update(app="django_tasks_retry")
    assert not any("Migration" in line for line in told(broken))


def test_where_nothing_changed_it_says_to_look_outside(database, travel):
    sign_on(OLD, "v41")
    run(OLD, *({"n": n} for n in range(4)))
    travel(10)
    failed = run(OLD, *({"n": n} for n in range(4)), error=ConnectionError("mail server"))
    assert told(str(Task.objects.get(pk=failed[0].pk).fingerprint))[-1].startswith("No change was recorded")


def test_a_group_that_is_only_retrying_is_compared_too(database, travel):
    sign_on(OLD, "v41")
    run(OLD, {"n": 1})
    travel(10)
    task = Task.objects.enqueue(tasks.noop, kwargs={"n": 2})
    [lease] = taskqueue.claim(f"{OLD}/1")
    taskqueue.fail_task(lease, KeyError("x"))
    changed = what_changed(str(Task.objects.get(pk=task.pk).fingerprint), database, can_see_payload=True)
    assert (changed.failure.task, changed.failure.release) == (task.pk, "v41")


def test_samples_and_look_backs_are_bounded(broken, database, monkeypatch):
    monkeypatch.setattr(module, "SAMPLE", 3)
    changed = what_changed(broken, database, can_see_payload=True)
    assert sampled(changed) == "Arguments were compared in 3 failures and 3 successes, the newest of each."
    monkeypatch.setattr(module, "SAMPLE", 100)
    monkeypatch.setattr(statistics, "LOOK_BACK", 6)
    run(NEW, {"order": 1}, {"order": 2})
    changed = what_changed(broken, database, can_see_payload=True)
    assert changed.success is not None
    assert changed.successes_sampled == 3


def test_times_are_of_the_newest_finished_tasks(database, travel):
    sign_on(OLD, "v41")
    Task.objects.enqueue(tasks.noop)
    travel(3)
    [lease] = taskqueue.claim(f"{OLD}/1")
    travel(5)
    taskqueue.complete_task(lease, None)
    times = read_times(database, "tests.tasks.noop")
    assert times.sampled == 1
    assert [round(each) for each in (*times.wait, *times.run)] == [3] * 3 + [5] * 3
    assert read_times(database, "nobody.knows").wait == ()


def test_times_of_more_attempts_than_tasks_are_known_of_come_from_histograms(database):
    waited, ran = [0] * 9, [0] * 9
    waited[0], ran[4] = 50, 50
    taskqueue.add_stats([taskqueue.Stat("a", "f", completed=50, ran=tuple(ran), waited=tuple(waited))])
    times = read_times(database, "f")
    assert (times.is_estimate, times.sampled) == (True, 50)
    assert max(times.wait) <= 0.01
    assert all(1.0 <= each <= 5.0 for each in times.run)


def test_counts_are_of_the_last_day(database, travel):
    taskqueue.add_stats(
        [taskqueue.Stat("a", "f", completed=3, failed=1, seconds=8.0), taskqueue.Stat("b", "f", retried=4)]
    )
    taskqueue.add_stats([taskqueue.Stat("a", "g", completed=1)])
    busiest, other = counts_of_a_day(current_scope())
    assert (busiest.func_path, busiest.attempts, busiest.failures, busiest.mean_seconds) == ("f", 8, 5, 1.0)
    assert counts_of_a_day(current_scope(), "g") == [other]
    travel(timedelta(hours=25).total_seconds())
    assert counts_of_a_day(current_scope()) == []
