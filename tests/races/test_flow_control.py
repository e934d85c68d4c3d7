"""Expiry and unique modes, with eight connections at once."""

from __future__ import annotations

from datetime import timedelta

import pytest

from django_tasks_retry import taskqueue
from django_tasks_retry.models import Task
from django_tasks_retry.rules.status import Status
from tests import tasks
from tests.model.invariants import violations
from tests.races.together import together


@pytest.mark.fault("F290")
def test_each_task_that_expires_is_started_in_time_or_cancelled_and_never_both(committed):
    Task.objects.enqueue_many(
        [{"func": tasks.noop, "args": [n], "expires": timedelta(milliseconds=n + 1)} for n in range(300)]
    )

    def claim_all(worker: str) -> None:
        while Task.objects.using(committed).pending().exists():
            taskqueue.claim(worker, limit=3)

    def sweep_all() -> None:
        while Task.objects.using(committed).pending().exists():
            taskqueue.expire(limit=5)

    together(lambda: claim_all("one"), lambda: claim_all("other"), sweep_all, sweep_all)
    ended = Task.objects.using(committed).cancelled()
    assert all(task.attempts == 0 and task.finished_at >= task.expires_at for task in ended)
    assert all(task.started_at < task.expires_at for task in Task.objects.using(committed).running())
    assert ended.count() + Task.objects.using(committed).filter(status=Status.RUNNING).count() == 300
    assert violations(committed) == []
