"""The tasks of the lab: they leave lines in a file, whatever the queue says about them."""

from __future__ import annotations

import os
import time

from django_tasks_retry.compat import task

TICK_SECONDS, LONG_SECONDS = 0.1, 20.0


@task
def leave_line(number: int) -> None:
    write_line("LAB_RUNS", number)


@task
def leave_lines(number: int) -> None:
    """One after the other, for longer than a lease."""
    end = time.monotonic() + LONG_SECONDS
    while time.monotonic() < end:
        write_line("LAB_TICKS", number)
        time.sleep(TICK_SECONDS)


def write_line(name: str, number: int) -> None:
    line = f"{number} {time.monotonic()}\n".encode()
    file = os.open(os.environ[name], os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    try:
        os.write(file, line)
    finally:
        os.close(file)
