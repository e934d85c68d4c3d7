"""Tasks that the tests enqueue."""

from __future__ import annotations

from typing import Any

from django_tasks_retry import lane, retry
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


@task
@lane("tenant-{tenant}", concurrency=2)
def sync(tenant: int, customer: int = 0) -> None:
    """Two at once for each tenant."""


@task
@lane("api-{name}", rate=(5, 60))
def call_api(name: str) -> None:
    """Five starts in any minute for each API."""


@task
@lane("account-{account}", order="strict")
def post(account: int, entry: int) -> None:
    """One after the other for each account."""


@task
@lane(concurrency=3)
def heavy() -> None:
    """Three at once, whoever asks."""
