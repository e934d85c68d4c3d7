"""A module of a typed project, as its author would write it: mypy and pyright in strict mode find nothing."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date, timedelta
from decimal import Decimal
from typing import assert_type
from uuid import UUID

from django.tasks import task as plain_task

from django_tasks_retry import Context, asignal, call, chain, retry, task
from django_tasks_retry.models import Task


@plain_task(queue_name="emails")
@retry(max_attempts=4)
def send_receipt(order_id: int) -> str:
    return f"receipt {order_id}"


@task
def price(order_id: int) -> Decimal:
    return Decimal(order_id)


@task(queue_name="bulk")
def announce(total: Decimal, *, until: date) -> list[str]:
    return [f"{total} until {until}"]


def split(upload: UUID, parts: int) -> list[int]:
    return list(range(parts))


async def fetch(url: str) -> bytes:
    return url.encode()


@task
def tell_support(task_id: str, channel: str) -> None: ...


@task(takes_context=True)
def import_all(context: Context, upload: UUID) -> Decimal:
    parts = context.step("split", split, upload, 3)
    assert_type(parts, list[int])
    assert_type(context.step("again", split, upload, 3, atomic=True), list[int])
    prices = context.gather("prices", [call(price, part) for part in parts])
    assert_type(prices[0], Decimal)
    assert_type(context.call("one", price, 1), Decimal)
    assert_type(context.call("other", call(send_receipt, 1).using(priority=3)), str)
    some = [each for each in context.gather("some", [call(price, 1)], errors="return") if isinstance(each, Decimal)]
    return sum(prices, Decimal(0)) + sum(some, Decimal(0))


@task(takes_context=True)
async def import_slowly(context: Context, upload: UUID) -> int:
    assert_type(await context.astep("fetch", fetch, "https://example.com"), bytes)
    assert_type(await context.astep("split", split, upload, 3), list[int])
    assert_type((await context.agather("prices", [call(price, 1)]))[0], Decimal)
    return len(await context.acall("one", send_receipt, 1))


def enqueue_all(upload: UUID) -> Sequence[Task]:
    import_all.enqueue(upload)
    assert_type(price.enqueue(1).return_value, Decimal)
    price.using(unique_key="price-1", queue="bulk", eta=timedelta(hours=1)).enqueue(1)
    price.using(unique_key="price-2", unique_for=3600, deadline=timedelta(hours=6)).enqueue(2)
    price.using(on_failure=call(tell_support, channel="orders")).enqueue(3)
    Task.objects.enqueue(price, args=[4], deadline=timedelta(hours=1), on_failure=call(tell_support, channel="orders"))
    row = Task.objects.enqueue(send_receipt, args=[43], priority=5, unique_key="receipt-43")
    assert_type(row, Task)
    Task.objects.enqueue_many([call(price, 1), call(send_receipt, 2)])
    Task.objects.enqueue_many([call(price, 1)], then=call(import_all, upload))
    chain(call(price, 1), call(announce, until=date.today()), call(send_receipt, 1).immutable()).enqueue(priority=2)
    first = Task.objects.filter(queue="bulk").first()
    return [row, *Task.objects.failed(), *([first] if first else [])]


async def enqueue_later(row: Task) -> None:
    assert_type(await Task.objects.aenqueue(price, [1], queue="bulk"), Task)
    assert_type(await row.aretry(by="ana"), Task)
    await row.acancel(reason="no")
    assert_type(await asignal("approved", {"by": 7}), bool)
