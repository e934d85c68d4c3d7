"""An atomic task's own writes and its completion commit together, or neither does."""

from __future__ import annotations

import pytest
from django.contrib.auth.models import Group

from django_tasks_retry.models import Task
from django_tasks_retry.taskqueue import claim, recover
from django_tasks_retry.worker.child.attempt import Attempt, run
from django_tasks_retry.worker.child.timeouts import Timeouts

from . import tasks
from .harness import status_of, story, wait_until_finished


def groups() -> list[str]:
    return sorted(Group.objects.values_list("name", flat=True))


def test_writes_and_completion_commit_together(start, effects):
    done = Task.objects.enqueue(tasks.write_atomically, ["done"])
    failed = Task.objects.enqueue(tasks.write_atomically, ["failed", "fail"])
    unstorable = Task.objects.enqueue(tasks.write_atomically, ["unstorable", "object"])
    assert start("--drain").exit_code() == 0
    assert [status_of(task) for task in (done, failed, unstorable)] == ["SUCCESS", "FAILED", "FAILED"]
    assert groups() == ["done"]
    assert (effects.count("wrote failed"), effects.count("wrote unstorable")) == (2, 1)
    failed, unstorable = wait_until_finished(failed), wait_until_finished(unstorable)
    assert failed.outcome.error["code"] == "EXCEPTION"
    assert unstorable.outcome.error["code"] == "RESULT_NOT_SERIALIZABLE"
    assert wait_until_finished(done).outcome.result == "done"


@pytest.mark.fault("hook_fails_after_the_commit")
def test_a_hook_that_fails_after_the_commit_is_told_and_the_completion_stands(start, effects):
    task = Task.objects.enqueue(tasks.fail_after_commit, ["charged"])
    worker = start("--drain", variables={"TELL_SIGNALS": "1"})
    assert worker.exit_code() == 0
    assert (status_of(task), groups(), story(task)) == ("SUCCESS", ["charged"], ["running", "completed"])
    assert "RuntimeError: the hook failed" in worker.output
    assert "done      fail_after_commit" in worker.output
    assert "lost " not in worker.output
    assert effects.count("signal task_finished fail_after_commit SUCCESSFUL False") == 1


@pytest.mark.parametrize("on", ["postgresql"], indirect=True)
def test_a_lease_that_is_lost_meanwhile_rolls_the_writes_back(start, effects):
    """Not on SQLite, where the open transaction keeps everybody from taking the lease away."""
    task = Task.objects.enqueue(tasks.write_atomically, ["first", "gate"], max_attempts=1)
    worker = start()
    effects.wait_for("wrote first")
    task.cancel(by="tests")
    worker.wait_for_line("cancelled .*CANCELLED")
    assert story(task) == ["running", "cancelled"]
    assert groups() == []


@pytest.mark.parametrize("reason", ["RECLAIMED", "CANCELLED", "EXPIRED"])
def test_a_lost_lease_rolls_the_writes_back(committed, effects, travel, reason):
    """Lost before the transaction began, since when nobody else could write on SQLite."""
    task = Task.objects.enqueue(tasks.write_atomically, ["first"], max_attempts=2)
    [lease] = claim("worker/1")
    if reason == "CANCELLED":
        task.cancel(by="tests")
    else:
        travel(61)
    if reason == "RECLAIMED":
        assert recover()
        assert claim("worker/2")
    attempt = Attempt(lease, 0.0)
    run(attempt)
    assert effects.count("wrote first") == 1
    assert groups() == []
    assert attempt.receipt.lost == reason


def test_an_atomic_task_past_its_timeout_rolls_back_and_fails_once(start, effects):
    task = Task.objects.enqueue(tasks.write_atomically, ["first", "gate"], max_attempts=1, timeout=4.0)
    start(lease=1.0)
    task = wait_until_finished(task)
    assert (task.last_error["code"], story(task), groups()) == ("TIMEOUT", ["running", "failed"], [])


def test_a_task_that_commits_is_not_interrupted_for_a_lease_that_is_gone_with_it(database):
    for name in ("a", "b"):
        Task.objects.enqueue(tasks.write_atomically, [name])
    attempts = [Attempt(lease, 0.0, started=1.0) for lease in claim("worker/1", limit=2)]
    attempts[0].is_committing = True
    timeouts, interrupted = object.__new__(Timeouts), []
    timeouts.attempts = set(attempts)
    timeouts.interrupt = lambda attempt, _: interrupted.append(attempt)
    timeouts.interrupt_lost([str(attempt.lease.id) for attempt in attempts], [])
    assert interrupted == attempts[1:]
