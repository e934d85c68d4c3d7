from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from django_tasks_retry import taskqueue
from django_tasks_retry.models import Task
from django_tasks_retry.taskqueue import Lanes
from tests import tasks


@pytest.fixture
def claim() -> Callable[..., list[taskqueue.Lease]]:
    """All that can be had, over several claims: whatever is closed is asked again, as time would make a worker do."""

    def claim(limit: int = 10, lanes: Lanes | None = None, worker: str = "worker/1") -> list[taskqueue.Lease]:
        lanes, leases = lanes or Lanes(), []
        for _ in range(4):
            lanes.closed_until.clear()
            lanes.looked_at = float("-inf")
            leases += taskqueue.claim(worker, limit=limit - len(leases), lanes=lanes)
            if len(leases) == limit:
                break
        return leases

    return claim


@pytest.fixture
def enqueue() -> Callable[..., list[Task]]:
    def enqueue(function: Any = tasks.sync, count: int = 1, *args: Any, **options: Any) -> list[Task]:
        return [Task.objects.enqueue(function, args=args, **options) for _ in range(count)]

    return enqueue
