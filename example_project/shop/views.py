from __future__ import annotations

from django.db import transaction
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.http import require_http_methods

from .models import Order, PriceList, Product
from .tasks import charge, import_products, tell_warehouse

EMPTY_SHOP = "tea,Green tea,4.50,100\ncup,A cup,7.00,100\npot,A pot,19.90,100"


@require_http_methods(["GET", "POST"])
def orders(request: HttpRequest) -> HttpResponse:
    if request.method == "POST":
        place_order(request.POST.get("email") or "you@example.com")
        return redirect("orders")
    newest = Order.objects.select_related("product", "receipt").prefetch_related("payments").order_by("-pk")[:20]
    return render(request, "shop/orders.html", {"orders": newest})


@transaction.atomic
def place_order(email: str) -> Order:
    """The order and its tasks are written together: no order without its charge, no charge without its order."""
    order = Order.objects.create(email=email, product=some_product())
    charge.enqueue(order.pk)
    tell_warehouse.enqueue(order.pk)
    return order


def some_product() -> Product:
    product = Product.objects.order_by("sku").first()
    if product is None:
        import_products.enqueue(PriceList.objects.create(text=EMPTY_SHOP).pk)
        product = Product.objects.create(sku="tea", name="Green tea", price="4.50", stock=100)
    return product
