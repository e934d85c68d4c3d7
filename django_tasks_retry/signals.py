"""Signals of a worker's processes, for what must be made anew after a fork or flushed before an end."""

from __future__ import annotations

from django.dispatch import Signal

SIGNAL_PROCESS = "for signals"
"""The worker_id of the process that a supervisor forks to send signals: it runs no task."""

worker_started = Signal()
"""Sent in the supervisor once it is registered, before its first child is forked. Start no threads in a receiver."""

child_started = Signal()
"""Sent in each child right after it was forked, before it claims: make thread pools and clients anew here."""

child_ending = Signal()
"""Sent in a child that ends in good order, after its last outcome was recorded. Receivers share five seconds."""
