"""A small shop: products, orders, receipts. And the mail server's log, which plays the world outside."""

from __future__ import annotations

from django.db import models


class Product(models.Model):
    sku = models.CharField(max_length=32, unique=True)
    name = models.CharField(max_length=200)
    price = models.DecimalField(max_digits=8, decimal_places=2)
    stock = models.IntegerField(default=0)

    def __str__(self) -> str:
        return f"{self.sku} {self.name}"


class Order(models.Model):
    email = models.EmailField()
    product = models.ForeignKey(Product, models.PROTECT)
    quantity = models.PositiveIntegerField(default=1)
    placed_at = models.DateTimeField(auto_now_add=True)
    charged_by = models.UUIDField(null=True, help_text="The task that charges it; the receipt's task is a child of it.")

    def __str__(self) -> str:
        return f"order {self.pk} for {self.email}"


class Payment(models.Model):
    """One per charge. That an order has never two of them is what an atomic task promises."""

    order = models.ForeignKey(Order, models.CASCADE, related_name="payments")
    amount = models.DecimalField(max_digits=10, decimal_places=2)
    paid_at = models.DateTimeField(auto_now_add=True)

    def __str__(self) -> str:
        return f"{self.amount} for {self.order}"


class Receipt(models.Model):
    """Exists once the mail server has taken the mail: what makes sending it a second time harmless."""

    order = models.OneToOneField(Order, models.CASCADE, related_name="receipt")
    sent_at = models.DateTimeField(auto_now_add=True)

    def __str__(self) -> str:
        return f"receipt of {self.order}"


class PriceList(models.Model):
    """A file of many rows that somebody uploaded. The task is given its id, not its content."""

    text = models.TextField(help_text="Lines of sku, name, price and stock, separated by commas.")
    uploaded_at = models.DateTimeField(auto_now_add=True)

    def __str__(self) -> str:
        return f"price list {self.pk}"


class Mail(models.Model):
    """A mail that the sandbox's server was asked to deliver, and whether it did."""

    address = models.EmailField()
    subject = models.CharField(max_length=200)
    accepted = models.BooleanField()
    at = models.DateTimeField(auto_now_add=True)

    def __str__(self) -> str:
        return f"{self.subject} to {self.address}"


class StockReport(models.Model):
    made_at = models.DateTimeField(auto_now_add=True)
    products = models.PositiveIntegerField()
    items = models.IntegerField()

    def __str__(self) -> str:
        return f"{self.items} items of {self.products} products"
