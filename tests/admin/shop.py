"""Tasks of a shop, for scenes that look like life."""

from __future__ import annotations

from typing import Any, TypeVar

from django_tasks_retry import retry
from django_tasks_retry.compat import task

F = TypeVar("F", bound=Any)


def placed(function: F) -> F:
    """As if it stood in the shop's own module."""
    function.__module__ = "shop.tasks"
    return function


@placed
class MailServerDown(Exception):
    """The mail server did not answer."""


@task(queue_name="emails")
@retry(backoff=[60, 300, 900, 3600])
@placed
def send_receipt(order_id: int, email: str, api_token: str = "") -> str:
    return deliver(email, f"receipt for order {order_id}")


def deliver(email: str, text: str) -> str:
    raise MailServerDown(f"connection to mail-{len(email)}.example lost after {len(text)} bytes")


@task
@retry(max_attempts=8)
@placed
def import_row(row: int) -> None:
    raise ValueError(f"row {row}: '{row * 37}' is not an IBAN")


@task
@placed
def sync_stock(warehouse: str) -> dict[str, int]:
    return {"warehouse": len(warehouse), "articles": 1204}


@task(queue_name="reports")
@placed
def monthly_report(month: str) -> str:
    return f"report of {month}"


@task(queue_name="bulk")
@placed
def resize_image(image: int) -> None:
    """Makes an image smaller."""
