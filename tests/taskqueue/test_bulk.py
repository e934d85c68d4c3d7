"""Many calls at once: each is stored as it was asked, and what they have in common is sent once."""

from __future__ import annotations

import sys
from collections import Counter
from datetime import UTC, datetime, timedelta

import pytest

from django_tasks_retry.models import Task
from django_tasks_retry.taskqueue import Request, current_lease
from django_tasks_retry.taskqueue.engines.postgresql_insert import statement
from django_tasks_retry.taskqueue.producer.enqueue import prepare_all
from tests import tasks
from tests.steps import begin

LATER = datetime(2031, 5, 6, 7, 8, 9, 123456, UTC)
UNLIKE = [
    {"args": [1]},
    {"args": [True]},
    {"args": [1.0]},
    {"args": [None]},
    {"args": ["NULL, \"quoted\", {in brackets}, \\back\\, \ttab\n, é, 𝄞, %s, 'single'"]},
    {"kwargs": {"value": "NULL"}},
    {"kwargs": {"value": {"a": [], "b": {}}}},
    {"eta": LATER},
    {"eta": timedelta(minutes=3)},
    {"interval": 60},
    {"interval": 60, "eta": LATER},
    {"queue": "emails", "priority": -3},
    {"lane": 'a "lane", \\ and {more}'},
    {"metadata": {"tenant": 1}},
    {"metadata": {"tenant": True}},
    {"backoff": [1, 2]},
    {"unique_key": 'k"'},
    {"expires": timedelta(hours=1)},
    {"expires": LATER},
    {"max_attempts": 9, "timeout": 0.25},
]


def in_full(task):
    return {field.attname: repr(getattr(task, field.attname)) for field in Task._meta.concrete_fields}


def asked(wishes):
    return {"func": tasks.noop, **wishes}


@pytest.mark.parametrize("ways", ["alone", "in pairs with a plain one", "all at once"])
def test_each_call_is_stored_as_it_was_asked_whatever_stands_beside_it(database, ways):
    batches = {
        "alone": [[asked(one)] for one in UNLIKE],
        "in pairs with a plain one": [[asked(one), asked({})] for one in UNLIKE],
        "all at once": [[asked(one) for one in UNLIKE]],
    }[ways]
    for batch in batches:
        made = Task.objects.enqueue_many(batch)
        stored = Task.objects.in_bulk([task.pk for task in made])
        assert [in_full(task) for task in made] == [in_full(stored[task.pk]) for task in made]
        for task, wishes in zip(made, batch, strict=True):
            assert repr(task.args) == repr(wishes.get("args", []))
            assert repr(task.metadata) == repr(wishes.get("metadata", {}))


def test_tasks_of_a_running_one_and_tasks_of_their_own_keep_their_runs(database):
    _, lease = begin()
    token = current_lease.set(lease)
    try:
        children = Task.objects.enqueue_many([tasks.noop] * 3)
    finally:
        current_lease.reset(token)
    assert {(task.run_id, task.parent_id) for task in Task.objects.filter(parent__isnull=False)} == {
        (lease.run_id, lease.id)
    }
    assert len(children) == 3


def test_alike_calls_send_their_ids_alone():
    sql, parameters, alike = statement(prepare_all([Request(tasks.noop)] * 50))
    assert alike
    assert [name for name, value in parameters.items() if str(value).startswith("{") and len(value) > 2] == ["id"]
    assert "unnest(%(id)s::uuid[])" in sql


def test_a_plain_call_names_no_column_that_it_leaves_empty():
    sql, parameters, _ = statement(prepare_all([Request(tasks.noop)]))
    assert None not in parameters.values()
    for column in ("retry_of_id", "parent_id", "schedule_id", "batch", "unique_key", "backoff", "waits_for", "run_id"):
        assert f"%({column})s" not in sql
    assert "expires_at" not in sql


def calls_a_task(requests) -> float:
    """How many functions Python enters for each, over what it enters once for all of them."""
    counts = []
    for some in (requests[: len(requests) // 2], requests):
        entered = Counter()
        sys.setprofile(lambda _frame, event, _argument, entered=entered: entered.update([event]))
        try:
            Task.objects.enqueue_many(some)
        finally:
            sys.setprofile(None)
        counts.append(entered["call"])
    return (counts[1] - counts[0]) / (len(requests) - len(requests) // 2)


@pytest.mark.parametrize("on", ["postgresql"], indirect=True)
@pytest.mark.parametrize(
    ("requests", "most"),
    [([(tasks.noop,)] * 800, 20), ([(tasks.noop, [n, "text"]) for n in range(800)], 37)],
    ids=["without arguments", "with two"],
)
def test_a_call_of_a_bulk_is_walked_once(database, requests, most):
    Task.objects.enqueue_many(requests)  # what is remembered from now on
    assert calls_a_task(requests) <= most
