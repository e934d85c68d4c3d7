"""The Phase 27 contract of worker failure and retry, section by section.

Its `queued` is PENDING, `completed` is SUCCESS, `attempt` is `attempts` and `available_at` is `eta`.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from datetime import datetime, timedelta
from pathlib import Path

import pytest

from django_tasks_retry import taskqueue
from django_tasks_retry.conf import DEFAULTS
from django_tasks_retry.models import TaskEvent
from tests.steps import begin, claim_one, delay_of, enqueue, kinds, now_of


def test_eligibility(database, travel):
    """Eligibility: queued, available_at <= now, and no lease."""
    later = enqueue(eta=timedelta(seconds=60))
    assert taskqueue.claim("worker") == []
    travel(61)
    assert claim_one().id == later.pk
    assert taskqueue.claim("worker") == []


def test_orphan_reclaim(database, travel):
    """Orphan reclaim: after lock_expires_at, atomically, and the next claim bumps the attempt."""
    task, lease = begin()
    assert taskqueue.recover() == []
    travel(61)
    [recovered] = taskqueue.recover()
    assert (recovered.lease.id, recovered.status) == (task.pk, "PENDING")
    again = claim_one("another")
    assert (again.id, again.attempts) == (task.pk, lease.attempts + 1)
    assert kinds(task) == ["task.running", "task.lease_lost", "task.running"]


def test_atomic_claim(database, travel):
    """Atomic claim: status, attempt, locked_by, lock_expires_at, started_at and the event, in one go."""
    task, lease = begin("worker-1")
    assert (task.status, task.attempts, task.locked_by) == ("RUNNING", 1, "worker-1")
    assert (task.lock_expires_at - task.updated_at).total_seconds() == 60
    assert task.started_at == task.updated_at
    event = TaskEvent.objects.get()
    assert event.kind == "task.running"
    assert event.payload == {
        "ts": task.updated_at,
        "task_id": task.pk,
        "run_id": task.run_id,
        "actor": "worker-1",
        "attempt": 1,
        "max_attempts": 5,
    }
    first_start = task.started_at
    taskqueue.fail_task(lease, ValueError("boom"))
    travel(100)
    claim_one()
    assert now_of(task).started_at == first_start


def test_success(database):
    """Success: completed, completed_at (finished_at), lease gone, task.completed told."""
    task, lease = begin("worker-1")
    taskqueue.complete_task(lease, "fine")
    task = now_of(task)
    assert (task.status, task.locked_by, task.lock_expires_at) == ("SUCCESS", None, None)
    assert task.finished_at == task.updated_at
    event = task.events.last()
    assert (event.kind, event.attempt, event.actor, event.ts) == ("task.completed", 1, "worker-1", task.finished_at)
    assert event.payload["run_id"] == task.run_id


def test_failure_and_retry(database):
    """Failure + retry: queued again with available_at, last_error and the events task.failed, task.requeued."""
    task, lease = begin()
    taskqueue.fail_task(lease, ValueError("boom"))
    task = now_of(task)
    assert (task.status, task.locked_by, task.lock_expires_at) == ("PENDING", None, None)
    error = task.last_error
    assert set(error) >= {
        "ts", "message", "code", "exception", "traceback", "attempt", "max_attempts", "terminal", "backoff_ms",
        "next_eta",
    }  # fmt: skip
    assert (error["message"], error["code"], error["exception"]) == ("boom", "EXCEPTION", "builtins.ValueError")
    assert (error["attempt"], error["max_attempts"], error["terminal"]) == (1, 5, False)
    assert error["backoff_ms"] == pytest.approx(delay_of(task) * 1000, abs=1)
    _, failed, requeued = task.events.all()
    assert (failed.kind, requeued.kind) == ("task.failed", "task.requeued")
    assert (failed.data["terminal"], failed.data["backoff_ms"]) == (False, error["backoff_ms"])
    assert failed.data["error"]["message"] == "boom"
    assert failed.data["error"]["code"] == "EXCEPTION"
    assert requeued.payload["eta"] == error["next_eta"]
    assert datetime.fromisoformat(error["next_eta"]) == task.eta


@pytest.mark.parametrize(("attempt", "undisturbed"), [(1, 1.5), (2, 3.0), (3, 6.0), (4, 12.0)])
def test_backoff_has_jitter_of_thirty_percent(database, travel, attempt, undisturbed):
    """Failure + retry: min(cap, base * 2^(attempt-1)) with jitter ±30 %."""
    task = enqueue()
    for _ in range(attempt):
        travel(100)
        taskqueue.fail_task(claim_one(), ValueError("boom"))
    assert undisturbed * 0.7 <= delay_of(now_of(task)) <= undisturbed * 1.3


def test_terminal_failure(database, travel):
    """Attempt >= max_attempts: failed, terminal, no lease."""
    task = enqueue()
    for _ in range(5):
        lease = claim_one()
        taskqueue.fail_task(lease, ValueError("boom"))
        travel(100)
    task = now_of(task)
    assert (task.status, task.attempts, task.locked_by, task.lock_expires_at) == ("FAILED", 5, None, None)
    assert (task.last_error["terminal"], task.last_error["next_eta"]) == (True, None)
    last = task.events.last()
    assert (last.kind, last.data["terminal"]) == ("task.failed", True)
    assert "backoff_ms" not in last.data


def test_backoff_knobs_by_default():
    """Backoff knobs (defaults): 60000, 5, 1500, 60000."""
    assert (DEFAULTS.lease, DEFAULTS.max_attempts, DEFAULTS.retry_base, DEFAULTS.retry_cap) == (60, 5, 1.5, 60)


SHOW = "from django.conf import settings; import json; print(json.dumps(settings.TASKS['default']['OPTIONS']))"


def test_backoff_knobs_from_the_environment():
    """Backoff knobs: TASK_LOCK_MS, TASK_MAX_ATTEMPTS, TASK_RETRY_BASE_MS, TASK_RETRY_CAP_MS of the example project."""
    knobs = {
        "TASK_LOCK_MS": "1000", "TASK_MAX_ATTEMPTS": "2", "TASK_RETRY_BASE_MS": "300", "TASK_RETRY_CAP_MS": "4000",
    }  # fmt: skip
    shown = subprocess.run(
        [sys.executable, "-c", SHOW],
        env={**os.environ, **knobs, "DJANGO_SETTINGS_MODULE": "example_project.settings"},
        cwd=Path(__file__).parents[2],
        capture_output=True,
        check=True,
    )
    options = json.loads(shown.stdout)
    assert options.items() >= {"LEASE": 1.0, "MAX_ATTEMPTS": 2, "RETRY_BASE": 0.3, "RETRY_CAP": 4.0}.items()
