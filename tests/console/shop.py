"""Tasks of a shop, for scenes that look like life."""

from __future__ import annotations

from django_tasks_retry import retry
from django_tasks_retry.compat import task


class MailServerDown(Exception):
    """The mail server did not answer."""


@task(queue_name="emails")
@retry(backoff=[60, 300, 900, 3600])
def send_receipt(order_id: int, email: str, api_token: str = "") -> str:
    return deliver(email, f"receipt for order {order_id}")


def deliver(email: str, text: str) -> str:
    raise MailServerDown(f"connection to mail-{len(email)}.example lost after {len(text)} bytes")


@task
@retry(max_attempts=8)
def import_row(row: int) -> None:
    raise ValueError(f"row {row}: '{row * 37}' is not an IBAN")


@task
def sync_stock(warehouse: str) -> dict[str, int]:
    return {"warehouse": len(warehouse), "articles": 1204}


@task(queue_name="reports")
def monthly_report(month: str) -> str:
    return f"report of {month}"


@task(queue_name="bulk")
def resize_image(image: int) -> None:
    """Makes an image smaller."""
