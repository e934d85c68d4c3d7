"""How a project tests its tasks: inside ordinary test cases, without a worker and without waiting."""

from __future__ import annotations

from django.db import OperationalError, connection
from django.test import TestCase, override_settings
from django.urls import reverse

from django_tasks_retry.testing import TaskTestMixin

from . import tasks
from .models import Mail, Order, Payment, PriceList, Product, Receipt
from .views import place_order


# Django's test runner puts a mail server in place that never fails.
@override_settings(EMAIL_BACKEND="example_project.shop.sandbox.MailServer")
class ShopTests(TaskTestMixin, TestCase):
    def setUp(self) -> None:
        self.product = Product.objects.create(sku="tea", name="Green tea", price="4.50", stock=10)

    def order_of(self, email: str) -> Order:
        return Order.objects.create(email=email, product=self.product)

    def test_an_order_is_charged_and_gets_its_receipt(self) -> None:
        order = place_order("ada@example.com")
        self.tasks.assert_enqueued(tasks.charge, order.pk)
        self.tasks.run_until_idle()
        self.assertEqual(order.payments.count(), 1)
        self.assertTrue(Receipt.objects.filter(order=order).exists())

    def test_a_receipt_survives_an_outage(self) -> None:
        tasks.send_receipt.enqueue(self.order_of("flaky@example.com").pk)
        self.tasks.run_due()
        self.tasks.advance(minutes=5)
        self.tasks.run_due()
        self.tasks.advance(minutes=15)
        self.tasks.run_due()
        self.assertEqual(self.tasks.history(tasks.send_receipt), ["failed", "failed", "successful"])
        self.assertEqual(Mail.objects.filter(accepted=True).count(), 1)

    def test_a_receipt_to_nowhere_is_given_up_after_the_third_delay(self) -> None:
        tasks.send_receipt.enqueue(self.order_of("gone@example.com").pk)
        self.tasks.run_until_idle()
        self.assertEqual(self.tasks.history(tasks.send_receipt), ["failed"] * 4)

    def test_a_charge_is_made_once_even_if_the_worker_is_killed(self) -> None:
        order = self.order_of("ada@example.com")
        report = self.tasks.crash(tasks.charge, order.pk, observe=lambda: Payment.objects.filter(order=order).count())
        self.assertTrue(report.idempotent, report)
        self.assertEqual(report.after_recovery, 1)

    def test_an_import_may_be_killed_and_run_again(self) -> None:
        prices = PriceList.objects.create(text="cup,A cup,7.00,3\npot,A pot,19.90,2")
        report = self.tasks.crash(tasks.import_products, prices.pk, observe=lambda: list(Product.objects.values()))
        self.assertTrue(report.idempotent, report)

    def test_a_parcel_is_asked_for_until_it_arrives(self) -> None:
        tasks.track_parcel.enqueue(1)
        self.tasks.run_until_idle()
        self.assertEqual(self.tasks.history(tasks.track_parcel), ["released", "released", "successful"])

    def test_the_page_of_orders_takes_an_order(self) -> None:
        self.client.post(reverse("orders"), {"email": "grace@example.com"})
        self.tasks.assert_enqueued(tasks.charge)
        self.assertContains(self.client.get(reverse("orders")), "grace@example.com")

    def test_the_page_of_orders_follows_the_tasks_of_each(self) -> None:
        self.client.post(reverse("orders"), {"email": "flaky@example.com"})
        self.assertContains(self.client.get(reverse("orders")), 'charge: <span class="PENDING">')
        self.tasks.run_due()
        page = self.client.get(reverse("orders"))
        self.assertContains(page, 'charge: <span class="SUCCESS">')
        self.assertContains(page, "attempt 1 of 4 failed")
        self.tasks.run_until_idle()
        self.assertContains(self.client.get(reverse("orders")), 'send_receipt: <span class="SUCCESS">')

    def test_health(self) -> None:
        self.assertEqual(self.client.get("/livez").json(), {"live": True})
        self.assertEqual(self.client.get("/readyz").json(), {"ready": True, "workers": 0, "due": 0})

    def test_readiness_names_no_host_and_no_user_of_the_database(self) -> None:
        def refuse(*_: object) -> None:
            raise OperationalError('connection to server at "10.0.0.7" failed: no password for user "app"')

        with connection.execute_wrapper(refuse), self.assertLogs("example_project.health"):
            response = self.client.get("/readyz")
        self.assertEqual(response.status_code, 503)
        self.assertEqual(response.json(), {"ready": False, "why": "the database does not answer"})
