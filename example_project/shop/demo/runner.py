"""Runs the demo: enqueues the scenarios, cancels two of them on the way, and waits until all have ended."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any
from uuid import UUID

from django_tasks_retry import taskqueue
from django_tasks_retry.models import Task
from django_tasks_retry.rules.status import Status

from .. import tasks
from . import scenarios
from .scenarios import Scenario

CANCEL_AFTER = 15  # pages, before the long task is cancelled
POLL_SECONDS = 0.15


class DemoRunner:
    def __init__(self) -> None:
        self.scenarios = scenarios.all_scenarios()
        self.coroutines: list[UUID] = []

    def begin(self) -> None:
        for scenario in self.scenarios:
            scenario.run_id = scenario.begin()
        calls = [(tasks.tell_warehouse, [n]) for n in range(1, 101)]
        self.coroutines = [task.pk for task in Task.objects.enqueue_many(calls)]

    def watch(self, show: Callable[[], None], seconds: float, is_working: Callable[[], bool]) -> bool:
        """Wait until all have ended. False if that took too long, or if the worker exited."""
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline and is_working():
            scenarios.find_tasks(self.scenarios)
            self.cancel_when_due()
            show()
            if all(scenario.is_finished for scenario in self.scenarios) and not self.coroutines_left():
                return True
            time.sleep(POLL_SECONDS)
        return False

    def cancel_when_due(self) -> None:
        for scenario in self.scenarios:
            if is_rebuilding(scenario) and (scenario.tasks[0].progress or {}).get("done", 0) >= CANCEL_AFTER:
                cancel(scenario, "an operator changed their mind")
            if is_repeating(scenario) and succeeded(scenario) >= scenarios.REPORTS:
                cancel(scenario, "the demo has seen enough of it")

    def coroutines_left(self) -> int:
        return Task.objects.unfinished().filter(pk__in=self.coroutines).count()

    def end(self) -> None:
        """Cancel what is left of the demo."""
        scenarios.find_tasks(self.scenarios)
        for scenario in self.scenarios:
            cancel(scenario, "the demo is over")
        taskqueue.cancel(self.coroutines, by="demo", reason="the demo is over")


def is_rebuilding(scenario: Scenario) -> bool:
    return any(task.func_path.endswith(".rebuild_catalogue") and not task.is_finished for task in scenario.tasks)


def is_repeating(scenario: Scenario) -> bool:
    return any(task.interval and not task.is_finished for task in scenario.tasks)


def succeeded(scenario: Scenario) -> int:
    return sum(task.status == Status.SUCCESS for task in scenario.tasks)


def cancel(scenario: Scenario, reason: str) -> Any:
    return taskqueue.cancel([task.pk for task in scenario.tasks if not task.is_finished], by="demo", reason=reason)
