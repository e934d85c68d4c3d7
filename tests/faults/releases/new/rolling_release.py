"""The new release: a function that is new, and one with a new parameter, which has a default."""

from __future__ import annotations

import time

from django_tasks_retry.compat import task
from tests.worker.tasks.marks import mark


@task
def greet(name: str, *, politely: bool = False) -> str:
    time.sleep(0.01)
    mark("greet", name)
    return "politely" if politely else "new"


@task
def welcome(name: str) -> str:
    mark("welcome", name)
    return "new"
