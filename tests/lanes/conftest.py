from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from django_tasks_retry import registry, taskqueue
from django_tasks_retry.clock import now
from django_tasks_retry.display.explain import explain
from django_tasks_retry.display.scope import Scope
from django_tasks_retry.models import Task, Worker
from django_tasks_retry.taskqueue import ClaimMemory
from tests import tasks
from tests.steps import Clock


@pytest.fixture
def claim() -> Callable[..., list[taskqueue.Lease]]:
    """All that can be had, over several claims: whatever is closed is asked again, as time would make a worker do."""

    def claim(limit: int = 10, worker: str = "worker/1") -> list[taskqueue.Lease]:
        clock, leases = Clock(), []
        memory = ClaimMemory(clock=clock)
        for _ in range(4):
            clock.advance()
            leases += taskqueue.claim(worker, limit=limit - len(leases), memory=memory)
            if len(leases) == limit:
                break
        return leases

    return claim


@pytest.fixture
def enqueue() -> Callable[..., list[Task]]:
    def enqueue(function: Any = tasks.sync, count: int = 1, *args: Any, **options: Any) -> list[Task]:
        return [Task.objects.enqueue(function, args=args, **options) for _ in range(count)]

    return enqueue


@pytest.fixture
def why(database: str) -> Callable[[Task], str]:
    identity = {"host": "h", "pid": 1, "version": "1", "processes": 1, "slots": 1}
    taskqueue.register_worker("w", "default", **identity)
    taskqueue.heartbeat("w", "default", 0)
    Worker.objects.update(tasks=registry.known_paths(), queues=["*"])

    def why(task: Task) -> str:
        scope = Scope("default", database, now(database) + timedelta(seconds=1))
        return explain(task, [], scope, can_see_payload=True).sentence

    return why
