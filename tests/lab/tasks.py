"""The task of the lab: it leaves a line in a file, whatever the queue says about it."""

from __future__ import annotations

import os
import time

from django_tasks_retry.compat import task


@task
def leave_line(number: int) -> None:
    line = f"{number} {time.monotonic()}\n".encode()
    file = os.open(os.environ["LAB_RUNS"], os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    try:
        os.write(file, line)
    finally:
        os.close(file)
