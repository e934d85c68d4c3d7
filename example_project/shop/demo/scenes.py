"""The scenes of the demo: what is enqueued, and how it should end."""

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
class Scene:
    """Everything that one cause sets off, known by its run."""

    title: str
    begin: Callable[[], UUID]
    should_end: Callable[[list[Task]], bool]
    run_id: UUID | None = None
    cast: list[Task] = field(default_factory=list)

    @property
    def is_over(self) -> bool:
        return bool(self.cast) and all(task.is_finished for task in self.cast)

    @property
    def as_it_should(self) -> bool:
        return self.is_over and self.should_end(self.cast)


def ends(status: Status, attempts: int | None = None) -> Callable[[list[Task]], bool]:
    """All tasks end in this status, the first one after so many attempts."""
    return lambda cast: (
        all(task.status == status for task in cast) and attempts in (None, cast[0].attempts - cast[0].refunds)
    )


def repeated_then_stopped(cast: list[Task]) -> bool:
    counted = Counter(task.status for task in cast)
    return counted[Status.SUCCESS] >= REPORTS and counted[Status.CANCELLED] == 1


def snoozed_then_done(cast: list[Task]) -> bool:
    return cast[0].status == Status.SUCCESS and cast[0].refunds == 2


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


def report_again_and_again() -> UUID:
    return Task.objects.enqueue(tasks.report_stock, interval=1.2).pk


def rebuild() -> UUID:
    return Task.objects.enqueue(tasks.rebuild_catalogue, args=[600]).pk


def all_scenes() -> list[Scene]:
    success, failed, cancelled = Status.SUCCESS, Status.FAILED, Status.CANCELLED
    return [
        Scene("succeeds, atomically, and sets off a receipt", sell, ends(success, 1)),
        Scene("fails twice, then succeeds", lambda: send_to("flaky"), ends(success, 3)),
        Scene("fails for good after three scheduled delays", lambda: send_to("gone"), ends(failed, 4)),
        Scene("gives up at once: nothing can mend it", send_for_no_order, ends(failed, 1)),
        Scene("times out after two seconds", book, ends(failed, 1)),
        Scene("snoozes twice, spending no attempt", track, snoozed_then_done),
        Scene(f"imports {ROWS:,} rows and tells its progress", import_many, ends(success, 1)),
        Scene("repeats, until it is cancelled", report_again_and_again, repeated_then_stopped),
        Scene("is cancelled while it runs", rebuild, ends(cancelled, 1)),
    ]


def find_cast(scenes: Iterable[Scene]) -> None:
    """Ask once for the tasks of all scenes."""
    by_run = {scene.run_id: scene for scene in scenes if scene.run_id}
    for scene in by_run.values():
        scene.cast = []
    for task in Task.objects.filter(run_id__in=by_run).order_by("pk"):
        by_run[task.run_id].cast.append(task)
