"""One list of a call's columns: what is added to the model and forgotten elsewhere is named here."""

from __future__ import annotations

from datetime import timedelta

import pytest

from django_tasks_retry import taskqueue
from django_tasks_retry.models import CALL_COLUMNS, ORIGIN_COLUMNS, OWN_COLUMNS, PLACE_COLUMNS, STATE_COLUMNS, Task
from django_tasks_retry.taskqueue import EnqueueOptions, Lease
from tests import tasks
from tests.steps import claim_one, now_of

LISTS = (CALL_COLUMNS, ORIGIN_COLUMNS, OWN_COLUMNS, PLACE_COLUMNS, STATE_COLUMNS)
LISTED = [column for columns in LISTS for column in columns]
NOT_ASKED_FOR = {"func_path": "the function's", "run_id": "the parent's", "slot": "the first eta"}
NOT_LEASED = {"unique_key": "workers have no use for it"}


def test_every_column_of_a_task_stands_in_one_list():
    columns = {field.attname for field in Task._meta.concrete_fields}
    assert columns - set(LISTED) == set(), "missing in models/columns.py"
    assert set(LISTED) - columns == set(), "in models/columns.py, but no column of Task"
    assert len(LISTED) == len(set(LISTED)), "in two lists of models/columns.py"


def test_every_column_of_a_call_can_be_asked_for():
    missing = set(CALL_COLUMNS) - set(EnqueueOptions._fields) - set(NOT_ASKED_FOR)
    assert missing == set(), "missing in taskqueue.EnqueueOptions and prepare()"


def test_every_column_of_a_call_reaches_the_worker():
    assert set(CALL_COLUMNS) - set(Lease._fields) - set(NOT_LEASED) == set(), "missing in taskqueue.Lease"


ASKED = {
    "func": tasks.noop, "kwargs": {}, "args": [], "eta": timedelta(0), "queue": "emails", "priority": 7,
    "max_attempts": 3, "backoff": [1, 2], "timeout": 9, "interval": 60, "unique_key": "k", "metadata": {"a": 1},
    "backend": "default", "lane": "k",
}  # fmt: skip


OF_THIS_TASK_ALONE = {"expires", "deadline", "unique_for", "on_failure", "on_conflict", "debounce", "debounce_max"}
"""Neither repetitions nor retries take it over; see test_expiry.py, test_deadline.py, test_throttle.py."""

PLACED_BY = {"shard_key"}
"""Chooses the database of a call. Repetitions and retries stay in it; see tests/shards/test_placement.py."""


def test_the_example_asks_for_all_that_is_passed_on():
    assert set(ASKED) == set(EnqueueOptions._fields) - OF_THIS_TASK_ALONE - PLACED_BY


@pytest.mark.parametrize("beside", [0, 1], ids=["alone", "with another"])
def test_what_was_asked_for_is_stored_and_passes_to_repetitions_and_retries(database, beside):
    others = [EnqueueOptions(tasks.noop, priority=-7)] * beside
    [asked, *_] = taskqueue.enqueue_many([EnqueueOptions(**ASKED), *others])
    stored = now_of(asked)
    lease = claim_one()
    taskqueue.complete_task(lease)
    repeated = Task.objects.exclude(pk=asked.pk).get(unique_key="k")
    repeated.cancel()
    retried = now_of(repeated).retry()
    for column in (*CALL_COLUMNS, "queue", "priority"):
        value = getattr(asked, column)
        assert value is not None, column
        assert getattr(stored, column) == value, column
        assert getattr(lease, column, value) == value, column
        assert getattr(now_of(retried), column) == getattr(repeated, column), column
        assert column == "slot" or getattr(repeated, column) == value, column
