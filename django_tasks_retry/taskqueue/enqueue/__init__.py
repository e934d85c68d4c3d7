"""Enqueue: a call is checked and becomes a PENDING row, and workers are notified."""
