"""The tasks that are measured."""

from __future__ import annotations

import os
import time
from pathlib import Path

from django_tasks_retry.compat import task


@task
def noop() -> None:
    """Nothing: what remains is the queue."""


@task
def stamp() -> None:
    """Note when it began, by the clock that all processes of a host share."""
    began = time.monotonic()
    with Path(os.environ["BENCHMARK_STAMPS"]).open("a") as stamps:
        stamps.write(f"{began}\n")
