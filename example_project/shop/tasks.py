"""The work that the shop does in the background."""

from __future__ import annotations

import asyncio
import csv
import random
from datetime import timedelta
from typing import Any

from django.core.mail import send_mail
from django.db.models import F, Sum

from django_tasks_retry import Abort, Snooze, retry
from django_tasks_retry.compat import task  # django.tasks, or its backport on Django 5.2
from django_tasks_retry.models import Task

from . import sandbox
from .models import Order, Payment, PriceList, Product, Receipt, StockReport

BATCH = 50


@task
@retry(atomic=True)
def charge(order_id: int) -> str:
    """Payment, stock and the wish for a receipt commit together with the task's own completion, or not at all."""
    order = Order.objects.select_related("product").get(pk=order_id)
    Product.objects.filter(pk=order.product_id).update(stock=F("stock") - order.quantity)
    payment = Payment.objects.create(order=order, amount=order.product.price * order.quantity)
    Task.objects.enqueue(send_receipt, args=[order.pk])
    return str(payment.amount)


@task(queue_name="emails")
@retry(backoff=[300, 900, 3600], abort_on=(Order.DoesNotExist,))
def send_receipt(order_id: int) -> str:
    """Tried again after 5, 15 and 60 minutes. Run twice it sends once, unless the worker dies in between."""
    order = Order.objects.get(pk=order_id)
    if Receipt.objects.filter(order=order).exists():
        return "sent before"
    send_mail(f"Your order {order.pk}", "Thank you!", "shop@example.com", [order.email])
    Receipt.objects.create(order=order)
    return f"sent to {order.email}"


@task
@retry(timeout=timedelta(seconds=2), max_attempts=1)
def book_shipment(order_id: int, seconds: float = 0.1) -> str:
    """The carrier must answer within two seconds."""
    sandbox.wait(seconds)
    return f"order {order_id} is booked"


@task(takes_context=True)
def track_parcel(context: Any, order_id: int) -> str:
    """Asks until the parcel has arrived. Not yet is no failure: a snooze spends no attempt."""
    status = sandbox.parcel_status(call=context.attempt)
    if status != "delivered":
        raise Snooze(0.7, f"parcel of order {order_id} is {status}")
    return status


@task(queue_name="reports", takes_context=True)
@retry(max_attempts=3, timeout=timedelta(minutes=10))
def import_products(context: Any, price_list_id: int) -> int:
    """A batch at a time, telling how far it has come; each batch may safely be written twice."""
    rows = list(csv.reader(PriceList.objects.get(pk=price_list_id).text.splitlines()))
    for start in range(0, len(rows), BATCH):
        batch = [Product(sku=s, name=n, price=p, stock=k) for s, n, p, k in rows[start : start + BATCH]]
        Product.objects.bulk_create(
            batch, update_conflicts=True, unique_fields=["sku"], update_fields=["name", "price", "stock"]
        )
        context.progress(start + len(batch), len(rows), f"up to {batch[-1].sku}")
        sandbox.wait(0.04)  # so that there is something to watch
    return len(rows)


@task(queue_name="reports")
def report_stock() -> int:
    """Enqueued once with an interval, it goes on by itself."""
    items = Product.objects.aggregate(items=Sum("stock"))["items"] or 0
    StockReport.objects.create(products=Product.objects.count(), items=items)
    return int(items)


@task(queue_name="reports", takes_context=True)
def rebuild_catalogue(context: Any, pages: int) -> int:
    """Long. An operator who cancels it stops it within moments, wherever it is."""
    for page in range(pages):
        sandbox.wait(0.1)
        context.progress(page + 1, pages)
    return pages


@task
async def tell_warehouse(order_id: int) -> str:
    """A coroutine: a hundred of them share one process."""
    await asyncio.sleep(random.uniform(0.05, 0.3))  # noqa: S311 - not a secret
    return f"warehouse knows of order {order_id}"


@task
def welcome_customer() -> int:
    """Somebody buys something. With an interval it keeps the demo alive."""
    product = Product.objects.order_by("?").first()
    if product is None:
        raise Abort("the shop is empty")
    name = random.choice(["ada", "grace", "flaky", "gone", "linus"])  # noqa: S311
    order = Order.objects.create(email=f"{name}.{random.randrange(10**6)}@example.com", product=product)  # noqa: S311
    Order.objects.filter(pk=order.pk).update(charged_by=charge.enqueue(order.pk).id)
    tell_warehouse.enqueue(order.pk)
    return order.pk
