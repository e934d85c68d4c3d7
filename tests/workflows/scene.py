"""Questions and actions that tests of workflows share."""

from __future__ import annotations

from typing import Any

from django_tasks_retry.models import Task
from django_tasks_retry.testing.inline import run_inline
from tests.steps import claim_one, now_of


def members() -> list[Task]:
    return list(Task.objects.filter(batch__isnull=False).order_by("pk"))


def result_of(task: Task) -> Any:
    return now_of(task).outcome.result


def run_one(harness: Any) -> None:
    """One attempt of whatever is due."""
    run_inline(claim_one(harness.worker_id))
