"""Tasks that the tests enqueue."""

from __future__ import annotations

from typing import Any

from django_tasks_retry import retry
from django_tasks_retry.compat import task


@task
def noop(*args: Any, **kwargs: Any) -> None:
    """Does nothing with anything."""


@task
def add(a: int, b: int) -> int:
    return a + b


@task
def explode(message: str = "boom") -> None:
    raise ValueError(message)


@task(queue_name="emails")
@retry(backoff=[300, 900, 3600])
def scheduled(order_id: int) -> None:
    raise ConnectionError(f"order {order_id}")


@task
def optional_nothing() -> None:
    """Takes no arguments at all."""
