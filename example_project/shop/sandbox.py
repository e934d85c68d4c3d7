"""The world outside the shop. As with the test cards of a payment provider, the address says what will happen."""

from __future__ import annotations

import time
from collections.abc import Sequence

from django.core.mail import EmailMessage
from django.core.mail.backends.base import BaseEmailBackend

from .models import Mail

DELIVERED_AT_CALL = 3


class MailServer(BaseEmailBackend):
    """`flaky@…` is refused twice, `gone@…` always."""

    def send_messages(self, email_messages: Sequence[EmailMessage]) -> int:
        for message in email_messages:
            address = message.to[0]
            accepted = accepts(address)
            Mail.objects.create(address=address, subject=message.subject, accepted=accepted)
            if not accepted:
                raise ConnectionRefusedError(f"mail server: connection refused for {address}")
        return len(email_messages)


def accepts(address: str) -> bool:
    if address.startswith("flaky"):
        return Mail.objects.filter(address=address).count() >= 2
    return not address.startswith("gone")


def parcel_status(call: int) -> str:
    """The carrier's answer to the n-th question."""
    return "delivered" if call >= DELIVERED_AT_CALL else "on its way"


def wait(seconds: float) -> None:
    """Something out there takes its time. Waits in small steps, so a timeout or a cancellation can interrupt it."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        time.sleep(0.02)
