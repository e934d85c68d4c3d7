"""A project that listens to each signal of its tasks."""

from __future__ import annotations

from typing import Any

from django.apps import AppConfig

from django_tasks_retry.compat import task_enqueued, task_finished, task_started


class Receivers(AppConfig):
    name = "benchmarks.receivers"
    label = "receivers"

    def ready(self) -> None:
        for signal in (task_enqueued, task_started, task_finished):
            signal.connect(hear)


def hear(**_: Any) -> None:
    """Nothing: what remains is the sending."""
