"""Tasks that workers of the release before the new one know."""

from __future__ import annotations

import time

from django_tasks_retry.compat import task
from tests.worker.tasks.marks import mark


@task
def greet(name: str) -> str:
    time.sleep(0.01)
    mark("greet", name)
    return "old"
