"""The work that the shop does in the background."""

from django_tasks_retry import retry
from django_tasks_retry.compat import task


@task
def add(a: int, b: int) -> int:
    return a + b


@task(queue_name="emails")
@retry(backoff=[300, 900, 3600])
def send_receipt(order_id: int) -> str:
    return f"receipt for order {order_id}"
