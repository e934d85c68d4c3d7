"""The scenarios of the demo: what is enqueued, and how it should end."""

from __future__ import annotations

import secrets
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from uuid import UUID

from django_tasks_retry.models import Task
from django_tasks_retry.rules.status import Status

from .. import tasks
from ..models import Order, PriceList, Product

SHORT_SCHEDULE = [0.6, 1.2, 2.0]
"""The receipts' 5, 15 and 60 minutes, shortened."""
REPORTS = 3
ROWS = 2000


@dataclass(slots=True)
class Scenario:
    """A task and all tasks that it enqueues: they share its run."""

    title: str
    begin: Callable[[], UUID]
    is_expected: Callable[[list[Task]], bool]
    run_id: UUID | None = None
    tasks: list[Task] = field(default_factory=list)

    @property
    def is_finished(self) -> bool:
        return bool(self.tasks) and all(task.is_finished for task in self.tasks)

    @property
    def as_expected(self) -> bool:
        return self.is_finished and self.is_expected(self.tasks)


def ends(status: Status, attempts: int | None = None) -> Callable[[list[Task]], bool]:
    """All tasks end in this status, the first one after this many attempts."""
    return lambda found: (
        all(task.status == status for task in found) and attempts in (None, found[0].attempts - found[0].refunds)
    )


def repeated_then_stopped(found: list[Task]) -> bool:
    counted = Counter(task.status for task in found)
    return counted[Status.SUCCESS] >= REPORTS and counted[Status.CANCELLED] == 1


def snoozed_then_done(found: list[Task]) -> bool:
    return found[0].status == Status.SUCCESS and found[0].refunds == 2


def order_of(name: str) -> Order:
    product, _ = Product.objects.get_or_create(sku="tea", defaults={"name": "Green tea", "price": "4.50", "stock": 100})
    return Order.objects.create(email=f"{name}.{secrets.token_hex(3)}@example.com", product=product)


def sell() -> UUID:
    return UUID(tasks.charge.enqueue(order_of("ada").pk).id)


def send_to(name: str) -> UUID:
    return Task.objects.enqueue(tasks.send_receipt, args=[order_of(name).pk], backoff=SHORT_SCHEDULE).pk


def send_for_no_order() -> UUID:
    return UUID(tasks.send_receipt.enqueue(0).id)


def book() -> UUID:
    return UUID(tasks.book_shipment.enqueue(order_of("grace").pk, seconds=60).id)


def track() -> UUID:
    return Task.objects.enqueue(tasks.track_parcel, args=[order_of("linus").pk]).pk


def import_many() -> UUID:
    text = "\n".join(f"sku-{n:04},Product {n},{n % 90 + 1}.50,{n % 40}" for n in range(ROWS))
    return Task.objects.enqueue(tasks.import_products, args=[PriceList.objects.create(text=text).pk]).pk


def report_repeatedly() -> UUID:
    return Task.objects.enqueue(tasks.report_stock, interval=1.2).pk


def rebuild() -> UUID:
    return Task.objects.enqueue(tasks.rebuild_catalogue, args=[600]).pk


def all_scenarios() -> list[Scenario]:
    success, failed, cancelled = Status.SUCCESS, Status.FAILED, Status.CANCELLED
    return [
        Scenario("succeeds atomically, and enqueues a receipt", sell, ends(success, 1)),
        Scenario("fails twice, then succeeds", lambda: send_to("flaky"), ends(success, 3)),
        Scenario("fails permanently after three retries", lambda: send_to("gone"), ends(failed, 4)),
        Scenario("aborts: a retry could not help", send_for_no_order, ends(failed, 1)),
        Scenario("times out after two seconds", book, ends(failed, 1)),
        Scenario("snoozes twice, spending no attempt", track, snoozed_then_done),
        Scenario(f"imports {ROWS:,} rows and reports progress", import_many, ends(success, 1)),
        Scenario("repeats, until it is cancelled", report_repeatedly, repeated_then_stopped),
        Scenario("is cancelled while it runs", rebuild, ends(cancelled, 1)),
    ]


def find_tasks(scenarios: Iterable[Scenario]) -> None:
    """The tasks of all scenarios, in one query."""
    by_run = {scenario.run_id: scenario for scenario in scenarios if scenario.run_id}
    for scenario in by_run.values():
        scenario.tasks = []
    for task in Task.objects.filter(run_id__in=by_run).order_by("pk"):
        by_run[task.run_id].tasks.append(task)
