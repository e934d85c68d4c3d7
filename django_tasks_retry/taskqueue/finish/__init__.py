"""Finishing: what workers report about their leases; renewals, progress, and what becomes of lost or expired tasks."""
