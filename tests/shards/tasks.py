from __future__ import annotations

from time import sleep
from typing import Any

from django_tasks_retry import call, task


@task
def note(number: int) -> int:
    return number


@task
def slow_note(number: int) -> int:
    sleep(0.02)
    return number


@task(takes_context=True)
def gathers(context: Any, count: int) -> int:
    return sum(context.gather("notes", [call(note, n) for n in range(count)]))
