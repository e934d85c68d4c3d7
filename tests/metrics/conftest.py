from __future__ import annotations

from django_tasks_retry.pytest_plugin import tasks

__all__ = ["tasks"]
