"""Many calls at once: each is stored as it was asked, and what they have in common is sent once."""

from __future__ import annotations

import gc
import sys
from collections import Counter
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from weakref import WeakSet

import pytest
from django.db import IntegrityError, connections, transaction
from django.test.utils import CaptureQueriesContext
from psycopg.pq import PipelineStatus

from django_tasks_retry.errors import InvalidPayload, QueueFull
from django_tasks_retry.models import Task
from django_tasks_retry.taskqueue import EnqueueOptions, current_lease
from django_tasks_retry.taskqueue.engines.postgresql_rows import examples, statement
from django_tasks_retry.taskqueue.enqueue.enqueue import prepare_all, prepare_chunk
from django_tasks_retry.taskqueue.enqueue.insert import insert_each
from django_tasks_retry.taskqueue.new_tasks import CHUNK
from tests import tasks
from tests.steps import begin, enqueue

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


@pytest.mark.parametrize("ways", ["alone", "in pairs with a plain one", "in pairs with the next one", "all at once"])
def test_each_call_is_stored_as_it_was_asked_whatever_stands_beside_it(database, ways):
    batches = {
        "alone": [[asked(one)] for one in UNLIKE],
        "in pairs with a plain one": [[asked(one), asked({})] for one in UNLIKE],
        "in pairs with the next one": [[asked(one), asked(next_one)] for one, next_one in pairwise(UNLIKE)],
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
    sql, parameters, alike = statement(prepare_all([EnqueueOptions(tasks.noop)] * 50))
    assert alike
    assert [name for name, value in parameters.items() if str(value).startswith("{") and len(value) > 2] == ["id"]
    assert "unnest(%(id)s::uuid[])" in sql


def test_the_statement_that_is_shown_as_an_example_is_that_of_plain_calls():
    sql, _, _ = statement(prepare_all([EnqueueOptions(tasks.noop)] * 50))
    assert examples() == {"enqueue_alike": sql}


def test_a_plain_call_names_no_column_that_it_leaves_empty():
    sql, parameters, _ = statement(prepare_all([EnqueueOptions(tasks.noop)]))
    assert None not in parameters.values()
    for column in ("retry_of_id", "parent_id", "schedule_id", "batch", "unique_key", "backoff", "waits_for", "run_id"):
        assert f"%({column})s" not in sql
    assert "expires_at" not in sql


@pytest.mark.parametrize("on", ["postgresql"], indirect=True)
@pytest.mark.parametrize(("count", "statements"), [(999, 1), (1000, 2), (CHUNK * 2, 2)])
def test_the_server_writes_one_half_while_the_other_is_checked(database, count, statements):
    with CaptureQueriesContext(connections[database]) as captured:
        assert len(Task.objects.enqueue_many([(tasks.noop,)] * count)) == count
    assert sum("-- Enqueue" in query["sql"] for query in captured.captured_queries) == statements


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
    [([(tasks.noop,)] * 800, 23), ([(tasks.noop, [n, "text"]) for n in range(800)], 40)],
    ids=["without arguments", "with two"],
)
def test_a_call_of_a_bulk_is_walked_once(database, requests, most):
    Task.objects.enqueue_many(requests)  # what is remembered from now on
    assert calls_a_task(requests) <= most


MANY = 2 * CHUNK + 10


def test_a_long_list_is_stored_in_its_order_by_one_statement_a_chunk(committed):
    with CaptureQueriesContext(connections[committed]) as captured:
        made = Task.objects.enqueue_many([(tasks.noop, [n]) for n in range(MANY)])
    assert [task.args for task in made] == [[n] for n in range(MANY)]
    assert list(Task.objects.order_by("id").values_list("args", flat=True)) == [[n] for n in range(MANY)]
    assert all(in_full(task) == in_full(stored) for task, stored in zip(made, Task.objects.order_by("id"), strict=True))
    assert connections[committed].vendor == "sqlite" or len(captured) == 3 + len(["BEGIN", "COMMIT"])


def test_a_long_list_with_a_bad_call_at_its_end_stores_nothing_and_leaves_its_caller_the_transaction(committed):
    with transaction.atomic(using=committed):
        kept = enqueue()
        with pytest.raises(InvalidPayload, match=r"args\[0\] is an object"):
            Task.objects.enqueue_many([*[(tasks.noop,)] * MANY, (tasks.noop, [object()])])
    assert Task.objects.get() == kept


def test_a_long_list_that_the_database_refuses_stores_nothing_and_leaves_its_caller_the_transaction(committed):
    prepared = prepare_all([(tasks.noop,)] * MANY)
    prepared[-1].priority = 999
    with transaction.atomic(using=committed):
        kept = enqueue()
        with pytest.raises(IntegrityError), transaction.atomic(using=committed):
            insert_each([prepared[:CHUNK], prepared[CHUNK:-1], prepared[-1:]], committed)
        again = enqueue()
    assert set(Task.objects.all()) == {kept, again}


@pytest.mark.parametrize("backlog", [{}, {"bulk": 2}], ids=["no cap", "a cap elsewhere"])
def test_in_a_long_list_a_key_that_is_held_yields_its_holder(database, configure, backlog):
    configure(BACKLOG=backlog)
    held = enqueue(unique_key="held")
    calls = [{"func": tasks.noop, "args": [n]} for n in range(MANY)]
    calls[-2] |= {"unique_key": "held"}
    calls[-1] |= {"unique_key": "free"}
    made = Task.objects.enqueue_many(calls)
    assert (made[-2], made[-2].already_enqueued, made[-1].unique_key) == (held, True, "free")
    assert [task.args for task in made[:-2]] == [[n] for n in range(MANY - 2)]
    assert Task.objects.count() == MANY


def test_a_long_list_for_a_full_queue_stores_nothing(committed, configure):
    configure(BACKLOG={"bulk": 2})
    calls = [{"func": tasks.noop} for n in range(MANY)]
    for call in calls[-3:]:
        call["queue"] = "bulk"
    with pytest.raises(QueueFull):
        Task.objects.enqueue_many(calls)
    assert not Task.objects.exists()


class Watching(dict):
    """Arguments that see how their own call is read."""

    def __init__(self, using):
        super().__init__()
        self.using, self.seen = using, []

    def __bool__(self):
        self.seen.append(connections[self.using].connection.info.pipeline_status)
        return False


@pytest.mark.parametrize("on", ["postgresql"], indirect=True)
def test_the_next_chunk_is_checked_while_the_server_writes_the_last_one(committed):
    first, last = Watching(committed), Watching(committed)
    calls = [(tasks.noop, [], first), *[(tasks.noop,)] * (MANY - 2), (tasks.noop, [], last)]
    connections[committed].ensure_connection()
    Task.objects.enqueue_many(calls)
    assert (first.seen[0], last.seen[0]) == (PipelineStatus.OFF, PipelineStatus.ON)
    Task.objects.enqueue_many(iter(calls))  # whose code may ask the database as it likes
    assert last.seen[-1] == PipelineStatus.OFF
    assert connections[committed].connection.info.pipeline_status == PipelineStatus.OFF


def test_a_plain_call_sends_what_is_its_own():
    _, parameters, _ = statement(prepare_all([EnqueueOptions(tasks.noop)]))
    assert set(parameters) == {"id", "func_path", "queue", "backend", "max_attempts", "timeout"}


@pytest.fixture
def collections() -> Iterator[list[str]]:
    """The generations that were collected meanwhile."""
    seen: list[str] = []

    def note(phase: str, info: dict[str, int]) -> None:
        seen.append(f"{phase} {info['generation']}")

    gc.callbacks.append(note)
    yield seen
    gc.callbacks.remove(note)


def test_no_garbage_is_collected_while_a_chunk_is_prepared(collections):
    before = gc.get_threshold()
    gc.set_threshold(100)
    try:
        calls = [(tasks.noop,)] * CHUNK
        gc.collect()
        collections.clear()
        prepared = prepare_chunk(calls)
        meanwhile = len(collections)
    finally:
        gc.set_threshold(*before)
    assert (len(prepared), meanwhile) == (CHUNK, 0)
    assert gc.isenabled()


def test_garbage_of_the_project_is_collected_between_chunks(database):
    """Calls out of a generator that leaves cycles behind: a million of them must not gather."""
    alive = WeakSet()

    class Knot:
        def __init__(self) -> None:
            self.itself = self
            alive.add(self)

    most = 0

    def calls():
        nonlocal most
        for _ in range(3 * CHUNK):
            Knot()
            most = max(most, len(alive))
            yield (tasks.noop,)

    Task.objects.enqueue_many(calls(), returning=False)
    assert most < 2 * CHUNK
    assert gc.isenabled()


def test_the_collector_is_left_as_it_was_also_where_a_call_is_refused(database):
    calls = [(tasks.noop,)] * CHUNK + [(tasks.noop, [object()])]
    with pytest.raises(InvalidPayload):
        Task.objects.enqueue_many(calls)
    assert gc.isenabled()
    gc.disable()
    try:
        Task.objects.enqueue_many([(tasks.noop,)] * (CHUNK + 1))
        assert not gc.isenabled()
    finally:
        gc.enable()
