"""Very many schedules due at the same second. `TICK_CROWD=10000 pytest tests/schedules/test_crowd.py -rP` measures."""

from __future__ import annotations

import os
import time

import pytest
from django.db import connections
from django.test.utils import CaptureQueriesContext

from django_tasks_retry.models import Schedule, Task
from tests.schedules.steps import plan, row, tick

CROWD = int(os.environ.get("TICK_CROWD", "1200"))
MOST_STATEMENTS = 10


def make_crowd() -> None:
    one = plan("0", cron="@daily", timezone="Europe/Berlin")
    copies = []
    for n in range(1, CROWD):
        copy = Schedule(**{field.attname: getattr(one, field.attname) for field in Schedule._meta.concrete_fields})
        copy.name = str(n)
        copies.append(copy)
    Schedule.objects.bulk_create(copies, batch_size=500)


@pytest.mark.fault("ten_thousand_schedules_due_at_once")
def test_a_crowd_is_enqueued_batch_by_batch_with_a_few_statements_each(committed, travel):
    make_crowd()
    travel(86400)
    began, batches, longest = time.monotonic(), 0, 0.0
    is_full = True
    while is_full:
        batch_began = time.monotonic()
        with CaptureQueriesContext(connections[committed]) as statements:
            is_full = tick().is_full
        longest = max(longest, time.monotonic() - batch_began)
        # SQLite inserts as many rows at once as it has parameters for.
        inserts = [s for s in statements.captured_queries if s["sql"].startswith("INSERT")]
        others = [s for s in statements.captured_queries if not s["sql"].startswith(("INSERT", "BEGIN", "UPDATE"))]
        assert len(others) <= MOST_STATEMENTS
        assert len(inserts) <= 60
        batches += 1
    seconds = time.monotonic() - began
    print(f"{CROWD} schedules in {seconds:.2f} s, {batches} batches, the longest {longest:.3f} s")  # noqa: T201
    assert Task.objects.count() == CROWD
    assert row("0").last_outcome == "enqueued"
