"""Promises of the contract for every task at any time, read from the tables alone."""

from __future__ import annotations

from collections import defaultdict
from uuid import UUID

from django_tasks_retry.models import Task, TaskEvent, TaskResult

FINAL = {"SUCCESS": "task.completed", "FAILED": "task.failed", "CANCELLED": "task.cancelled"}
COLUMNS = ("pk", "status", "attempts", "refunds", "max_attempts", "locked_by", "lock_expires_at", "finished_at")


def histories(using: str) -> dict[UUID, list[TaskEvent]]:
    told: dict[UUID, list[TaskEvent]] = defaultdict(list)
    for event in TaskEvent.objects.using(using).order_by("id"):
        told[event.task_id].append(event)
    return told


def is_final(event: TaskEvent) -> bool:
    return event.kind in ("task.completed", "task.cancelled") or bool(event.data.get("terminal"))


def violations(using: str) -> list[str]:
    """Every broken promise, in words."""
    told, results = histories(using), dict(TaskResult.objects.using(using).values_list("pk", "status"))
    found = []
    for pk, status, attempts, refunds, budget, locked_by, expires, finished_at in Task.objects.using(using).values_list(
        *COLUMNS
    ):
        events = told.pop(pk, [])
        claims = [event.attempt for event in events if event.kind == "task.running"]
        finals = [n for n, event in enumerate(events) if is_final(event)]
        promises = {
            "running events are numbered 1 to attempts": claims == list(range(1, attempts + 1)),
            "a lease if and only if RUNNING": (status == "RUNNING") == bool(locked_by) == bool(expires),
            "0 <= refunds <= attempts": 0 <= refunds <= attempts,
            "attempts - refunds <= max_attempts": attempts - refunds <= budget,
            "a result of the same status if and only if finished": results.pop(pk, None)
            == (status if status in FINAL else None),
            "finished_at if and only if finished": bool(finished_at) == (status in FINAL),
            "one final event if finished, and nothing after it": finals
            == ([len(events) - 1] if status in FINAL else []),
            "the final event tells the status": not finals or events[-1].kind == FINAL.get(status),
        }
        found += [f"{pk} ({status}): {promise}" for promise, kept in promises.items() if not kept]
    return found + [f"{pk}: events or a result without a task" for pk in {*told, *results}]
