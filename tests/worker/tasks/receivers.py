"""Receivers of the framework's signals, where TELL_SIGNALS asks for them."""

from __future__ import annotations

import os
from typing import Any

from django.contrib.auth.models import Group

from django_tasks_retry.compat import task_enqueued, task_finished, task_started

from .marks import mark


def tell(signal: Any, task_result: Any, **_: Any) -> None:
    """A receiver that asks the database, as receivers do."""
    name = "task_started" if signal is task_started else "task_finished"
    mark("signal", name, task_result.task.name, task_result.status, not Group.objects.exists())


if "TELL_SIGNALS" in os.environ:
    task_started.connect(tell)
    task_finished.connect(tell)


def tell_enqueued(task_result: Any, **_: Any) -> None:
    mark("enqueued", task_result.task.name)


if "TELL_ENQUEUED" in os.environ:
    task_enqueued.connect(tell_enqueued)
