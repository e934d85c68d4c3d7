"""An atomic task's own writes and its completion commit together, or neither does."""

from __future__ import annotations

import pytest
from django.contrib.auth.models import Group
from django.db import connections

from django_tasks_retry.models import Task
from django_tasks_retry.taskqueue import claim
from django_tasks_retry.worker.child.attempt import Attempt
from django_tasks_retry.worker.child.watch import Watch

from . import tasks
from .harness import status_of, story, wait_for, wait_until_finished


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


@pytest.mark.fault("F85")
def test_a_hook_that_fails_after_the_commit_is_told_and_the_completion_stands(start, effects):
    task = Task.objects.enqueue(tasks.fail_after_commit, ["charged"])
    worker = start("--drain", variables={"TELL_SIGNALS": "1"})
    assert worker.exit_code() == 0
    assert (status_of(task), groups(), story(task)) == ("SUCCESS", ["charged"], ["running", "completed"])
    assert "RuntimeError: the hook failed" in worker.output
    assert "done      fail_after_commit" in worker.output
    assert "lost " not in worker.output
    assert effects.count("signal task_finished fail_after_commit SUCCESSFUL False") == 1


def test_a_lost_lease_rolls_the_writes_back(start, effects, committed):
    """On SQLite the open transaction keeps everybody from taking the lease away: it can only expire."""
    task = Task.objects.enqueue(tasks.write_atomically, ["first", "gate"], max_attempts=1)
    worker = start(lease=1.0)
    effects.wait_for("wrote first")
    if connections[committed].vendor == "postgresql":
        task.cancel(by="tests")
        worker.wait_for_line("cancelled .*CANCELLED")
        assert story(task) == ["running", "cancelled"]
    else:
        [child] = worker.children()
        wait_for(lambda: child not in worker.children(), "the end of the child without a lease")
        tasks.gate("gate").touch()
        wait_until_finished(task)
    assert groups() == []


def test_a_task_that_commits_is_not_interrupted_for_a_lease_that_is_gone_with_it(database):
    for name in ("a", "b"):
        Task.objects.enqueue(tasks.write_atomically, [name])
    attempts = [Attempt(lease, 0.0, started=1.0) for lease in claim("worker/1", limit=2)]
    attempts[0].is_committing = True
    watch, interrupted = object.__new__(Watch), []
    watch.attempts = set(attempts)
    watch.interrupt = lambda attempt, _: interrupted.append(attempt)
    watch.interrupt_lost([str(attempt.lease.id) for attempt in attempts], [])
    assert interrupted == attempts[1:]
