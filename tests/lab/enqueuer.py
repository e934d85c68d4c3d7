"""Enqueues one task after the other, and writes down which of them were acknowledged, and when."""

from __future__ import annotations

import itertools
import os
import time
from pathlib import Path

import django
from django.db import DEFAULT_DB_ALIAS, connections

LONG_EVERY = 250
"""Some ten seconds, so that two that take long are at work at any time."""


def main() -> None:
    django.setup()
    from tests.lab.tasks import leave_line, leave_lines

    queue, pause = os.environ["LAB_QUEUE"], 1 / float(os.environ["LAB_RATE"])
    due = time.monotonic()
    with Path(os.environ["LAB_ACKNOWLEDGED"]).open("a", encoding="utf-8", buffering=1) as acknowledged:
        for number in itertools.count():
            try:
                task = leave_line if number % LONG_EVERY else leave_lines
                stored = task.using(queue_name=queue).enqueue(number)
                acknowledged.write(f"{number} {time.monotonic()} {stored.id}\n")
            except Exception as error:  # noqa: BLE001 - the database is away: whatever it says
                print(f"{time.monotonic():.1f} {type(error).__name__}: {error}", flush=True)  # noqa: T201
                connections[DEFAULT_DB_ALIAS].close()
            # What an outage kept waiting is not made up for.
            due = max(due + pause, time.monotonic() - pause)
            time.sleep(max(0.0, due - time.monotonic()))


if __name__ == "__main__":
    main()
