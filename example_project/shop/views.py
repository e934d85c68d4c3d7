from __future__ import annotations

from collections import defaultdict
from uuid import UUID

from django.db import transaction
from django.db.models import Q
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.http import require_http_methods

from django_tasks_retry.models import Task

from .models import Order, PriceList, Product
from .tasks import charge, import_products, tell_warehouse

EMPTY_SHOP = "tea,Green tea,4.50,100\ncup,A cup,7.00,100\npot,A pot,19.90,100"


@require_http_methods(["GET", "POST"])
def orders(request: HttpRequest) -> HttpResponse:
    if request.method == "POST":
        place_order(request.POST.get("email") or "you@example.com")
        return redirect("orders")
    newest = list(Order.objects.select_related("product", "receipt").prefetch_related("payments").order_by("-pk")[:20])
    work = tasks_of(newest)
    return render(request, "shop/orders.html", {"orders": [(order, work[order.charged_by]) for order in newest]})


def tasks_of(orders: list[Order]) -> dict[UUID | None, list[Task]]:
    """The tasks of each order, by the one that charges it: that, and its children."""
    charges = [order.charged_by for order in orders if order.charged_by]
    found: dict[UUID | None, list[Task]] = defaultdict(list)
    for task in Task.objects.filter(Q(pk__in=charges) | Q(parent__in=charges)).order_by("pk"):
        found[task.parent_id if task.parent_id in charges else task.pk].append(task)
    return found


@transaction.atomic
def place_order(email: str) -> Order:
    """The order and its tasks are written together: no order without its charge, no charge without its order."""
    order = Order.objects.create(email=email, product=some_product())
    Order.objects.filter(pk=order.pk).update(charged_by=charge.enqueue(order.pk).id)
    tell_warehouse.enqueue(order.pk)
    return order


def some_product() -> Product:
    product = Product.objects.order_by("sku").first()
    if product is None:
        import_products.enqueue(PriceList.objects.create(text=EMPTY_SHOP).pk)
        product = Product.objects.create(sku="tea", name="Green tea", price="4.50", stock=100)
    return product
