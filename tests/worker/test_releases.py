"""A task that workers only give back is told to operators, after a stated number of times."""

from __future__ import annotations

import logging

import pytest

from django_tasks_retry.clock import now
from django_tasks_retry.display.explain import explain
from django_tasks_retry.display.scope import Scope
from django_tasks_retry.errors import Snooze
from django_tasks_retry.models import Task
from django_tasks_retry.taskqueue import Failed, Released, claim, finish, reschedule
from django_tasks_retry.taskqueue.recording import WARN_AFTER_RELEASES
from django_tasks_retry.worker.shared.outcomes import AttemptResult, Counts, OutcomePublisher
from tests import tasks


@pytest.fixture
def end(database, caplog):
    """Claims the task and ends the attempt so; the levels at which that was logged."""
    publisher = OutcomePublisher(Counts().note, lambda result: None)

    def end_one(task: Task, outcome, times: int = 1) -> list[str]:
        caplog.clear()
        with caplog.at_level(logging.INFO, "django_tasks_retry.attempts"):
            for _ in range(times):
                reschedule([task.pk], eta=now(database))
                [lease] = claim("worker/1")
                [receipt] = finish([outcome(lease)])
                publisher.publish(AttemptResult(receipt, "the neighbour snores"))
        return [record.levelname for record in caplog.records]

    return end_one


def given_back(lease):
    return Released(lease, "the neighbour snores")


def why(task: Task, using: str) -> str:
    task.refresh_from_db()
    return explain(task, [], Scope("default", using, now(using)), can_see_payload=True).sentence


def test_every_nth_release_in_a_row_is_a_warning_and_explained(database, end, caplog):
    task = Task.objects.enqueue(tasks.noop)
    quiet = ["INFO"] * (WARN_AFTER_RELEASES - 1)
    assert end(task, given_back, WARN_AFTER_RELEASES - 1) == quiet
    assert "in a row" not in why(task, database)
    assert end(task, given_back) == ["WARNING"]
    assert f"the neighbour snores · released {WARN_AFTER_RELEASES} times in a row" in caplog.text
    assert str(task.pk)[:18] in caplog.text
    assert f"released it {WARN_AFTER_RELEASES} times in a row, the last time because: the neighbour snores" in why(
        task, database
    )
    assert end(task, given_back, WARN_AFTER_RELEASES) == [*quiet, "WARNING"]


def test_releases_that_the_task_asked_for_do_not_count(database, end):
    task = Task.objects.enqueue(tasks.noop)
    assert set(end(task, lambda lease: Failed(lease, Snooze(60)), 2 * WARN_AFTER_RELEASES)) == {"INFO"}
    assert end(task, given_back) == ["INFO"]
    assert "in a row" not in why(task, database)


def test_an_attempt_that_ends_by_itself_begins_a_new_row(database, end):
    task = Task.objects.enqueue(tasks.noop)
    end(task, given_back, WARN_AFTER_RELEASES - 1)
    end(task, lambda lease: Failed(lease, ValueError("at last")))
    assert end(task, given_back, WARN_AFTER_RELEASES) == ["INFO"] * (WARN_AFTER_RELEASES - 1) + ["WARNING"]
