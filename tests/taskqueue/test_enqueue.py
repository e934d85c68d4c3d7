"""Enqueue: in the caller's transaction, many at once, in order."""

from __future__ import annotations

import gc
import inspect
from contextlib import contextmanager, suppress
from datetime import UTC, datetime, timedelta

import pytest
from django.db import connections, transaction
from django.test.utils import CaptureQueriesContext

from django_tasks_retry import call, taskqueue
from django_tasks_retry.errors import InvalidPayload
from django_tasks_retry.models import Task
from django_tasks_retry.rules.backoff import Exponential
from django_tasks_retry.taskqueue import EnqueueOptions, current_lease
from django_tasks_retry.taskqueue.enqueue.enqueue import SharedChecks
from django_tasks_retry.taskqueue.new_tasks import CHUNK
from tests import tasks
from tests.steps import begin, enqueue, now_of


class Oops(Exception):
    pass


@contextmanager
def undone(using):
    """A transaction that ends with an exception of its caller's."""
    with suppress(Oops), transaction.atomic(using=using):
        yield
        raise Oops


def test_a_task_commits_with_the_data_of_its_caller(committed, django_user_model):
    with transaction.atomic(using=committed):
        user = django_user_model.objects.create(username="ada")
        task = enqueue(tasks.noop, user.pk)
    assert now_of(task).args == [user.pk]


@pytest.mark.fault("enqueue_rolled_back")
def test_a_task_is_rolled_back_with_the_data_of_its_caller(committed, django_user_model):
    with undone(committed):
        django_user_model.objects.create(username="ada")
        enqueue()
        Task.objects.enqueue_many([tasks.noop, tasks.noop])
    assert (Task.objects.count(), django_user_model.objects.count()) == (0, 0)


def test_a_task_of_an_undone_savepoint_is_gone(database):
    with transaction.atomic(using=database):
        kept = enqueue()
        with undone(database):
            enqueue()
    assert Task.objects.get() == kept


@pytest.mark.fault("enqueue_rolled_back")
def test_nobody_sees_a_task_before_its_commit(committed):
    with transaction.atomic(using=committed):
        enqueue()
        assert Task.objects.count() == 1
        other = connections[committed].copy()
        try:
            with other.cursor() as cursor:
                cursor.execute("SELECT count(*) FROM django_tasks_retry_task")
                assert cursor.fetchone()[0] == 0
        finally:
            other.close()


def test_ten_thousand_tasks_take_few_statements_and_keep_their_order(database):
    with CaptureQueriesContext(connections[database]) as captured:
        made = Task.objects.enqueue_many(EnqueueOptions(tasks.noop, [n]) for n in range(10_000))
    assert len(captured) <= (10 if connections[database].vendor == "postgresql" else 400)
    assert [task.args for task in made] == [[n] for n in range(10_000)]
    stored = Task.objects.order_by("eta", "id").values_list("args", flat=True)
    assert list(stored) == [[n] for n in range(10_000)]
    assert [lease.args for lease in taskqueue.claim("worker", limit=50)] == [[n] for n in range(50)]


def test_a_stream_of_calls_is_stored_without_being_kept(database):
    most = 0

    def calls():
        nonlocal most
        for number in range(5_001):
            if number % 1_000 == 0:
                most = max(most, sum(isinstance(thing, Task | SharedChecks) for thing in gc.get_objects()))
            yield {"func": tasks.add, "args": [number, 1], "timeout": float(number + 1)}  # each with its own options

    assert Task.objects.enqueue_many(calls(), returning=False) == 5_001
    assert most <= 2 * CHUNK + 1_000
    assert [args for (args,) in Task.objects.order_by("id").values_list("args")] == [[n, 1] for n in range(5_001)]
    assert Task.objects.enqueue_many([], returning=False) == 0


def test_a_stream_that_breaks_off_stores_nothing_and_leaves_its_caller_the_transaction(committed):
    def calls():
        for number in range(3_000):
            yield tasks.add, [number, 1]
        yield tasks.add, [object(), 1]

    with transaction.atomic(using=committed):
        kept = enqueue()
        with pytest.raises(InvalidPayload):
            Task.objects.enqueue_many(calls(), returning=False)
    assert Task.objects.get() == kept


def test_one_task_takes_one_statement_on_postgresql(database):
    with CaptureQueriesContext(connections[database]) as captured:
        enqueue()
    assert connections[database].vendor == "sqlite" or len(captured) == 1


def test_enqueue_many_reads_requests_dictionaries_pairs_and_functions(database):
    made = Task.objects.enqueue_many(
        [
            EnqueueOptions(tasks.add, [1, 2]),
            {"func": tasks.add, "args": [3], "kwargs": {"b": 4}, "priority": 5},
            (tasks.add, [5, 6]),
            tasks.noop,
        ]
    )
    assert [(task.args, task.kwargs, task.priority) for task in made] == [
        ([1, 2], {}, 0), ([3], {"b": 4}, 5), ([5, 6], {}, 0), ([], {}, 0),
    ]  # fmt: skip


def test_enqueuing_nothing_is_nothing(database):
    assert Task.objects.enqueue_many([]) == []


def test_the_row_that_comes_back_is_the_row_that_was_written(database):
    task = enqueue(
        tasks.add, 1, kwargs={"b": 2}, eta=timedelta(hours=1), queue="bulk", priority=-7, max_attempts=2,
        backoff=Exponential(1, 3, 9, 0), timeout=timedelta(minutes=2), interval=timedelta(hours=2), unique_key="k",
        metadata={"tenant": 7},
    )  # fmt: skip
    stored = now_of(task)
    assert {f.attname: getattr(task, f.attname) for f in Task._meta.fields} == {
        f.attname: getattr(stored, f.attname) for f in Task._meta.fields
    }
    assert (stored.queue, stored.priority, stored.timeout, stored.interval) == ("bulk", -7, 120, 7200)
    assert stored.backoff == {"base": 1, "factor": 3, "cap": 9, "jitter": 0}
    assert (stored.eta - stored.created_at, stored.slot) == (timedelta(hours=1), stored.eta)


def test_a_delay_counts_from_the_clock_of_the_queue(database, travel):
    travel(86_400)
    task = enqueue(eta=timedelta(minutes=5))
    assert task.eta - task.created_at == timedelta(minutes=5)


@pytest.mark.parametrize(
    ("func", "options", "budget"),
    [
        (tasks.noop, {}, 5),
        (tasks.noop, {"max_attempts": 2}, 2),
        (tasks.noop, {"backoff": [1, 2]}, 3),
        (tasks.noop, {"backoff": [1, 2], "max_attempts": 9}, 9),
        (tasks.scheduled, {}, 4),
        (tasks.scheduled, {"max_attempts": 2}, 2),
        (tasks.scheduled, {"backoff": [1]}, 2),
        (tasks.scheduled, {"backoff": Exponential()}, 5),
    ],
)
def test_the_budget_comes_from_the_nearest_word(database, func, options, budget):
    assert enqueue(func, 1, **options).max_attempts == budget


def test_the_defaults_of_the_backend_apply(database, configure):
    configure(MAX_ATTEMPTS=7, TIMEOUT=12)
    task = enqueue()
    assert (task.max_attempts, task.timeout) == (7, 12)


def test_whole_and_broken_seconds_in_one_batch(database, configure):
    configure(TIMEOUT=12)
    made = Task.objects.enqueue_many(
        [EnqueueOptions(tasks.noop), EnqueueOptions(tasks.noop, timeout=1.5, interval=2.5)]
    )
    assert [now_of(task).timeout for task in made] == [12, 1.5]


def test_a_task_of_its_own_begins_a_run(database):
    task = enqueue()
    assert (task.run_id, task.parent_id) == (task.pk, None)


def test_tasks_enqueued_inside_a_task_belong_to_its_run(database):
    task, lease = begin()
    token = current_lease.set(lease)
    try:
        child = enqueue()
    finally:
        current_lease.reset(token)
    assert (child.run_id, child.parent_id) == (task.run_id, task.pk)


USED = {
    "run_after, a delay": (
        {"run_after": timedelta(hours=3)},
        lambda task: task.eta - task.created_at,
        timedelta(hours=3),
    ),
    "run_after, an instant": ({"run_after": datetime(2090, 1, 1, tzinfo=UTC)}, lambda task: task.eta.year, 2090),
    "queue_name": ({"queue_name": "bulk"}, lambda task: task.queue, "bulk"),
    "eta": ({"eta": datetime(2090, 1, 1, tzinfo=UTC)}, lambda task: task.eta.year, 2090),
    "queue": ({"queue": "bulk"}, lambda task: task.queue, "bulk"),
    "priority": ({"priority": 7}, lambda task: task.priority, 7),
    "backend": ({"backend": "mail"}, lambda task: task.backend, "mail"),
    "unique_key": ({"unique_key": "k"}, lambda task: task.unique_key, "k"),
    "on_conflict": ({"unique_key": "k", "on_conflict": "run_again"}, lambda task: task.unique_key, "k"),
    "debounce": (
        {"unique_key": "k", "debounce": 9},
        lambda task: task.eta - task.created_at,
        timedelta(seconds=9),
    ),
    "debounce_max": ({"unique_key": "k", "debounce": 9, "debounce_max": 10}, lambda task: task.unique_key, "k"),
    "expires": (
        {"expires": timedelta(hours=3)},
        lambda task: task.expires_at - task.created_at,
        timedelta(hours=3),
    ),
    "unique_for": (
        {"unique_key": "k", "unique_for": 60},
        lambda task: task.unique_until - task.created_at,
        timedelta(seconds=60),
    ),
    "deadline": (
        {"deadline": timedelta(hours=3)},
        lambda task: task.deadline_at - task.created_at,
        timedelta(hours=3),
    ),
    "on_failure": ({"on_failure": call(tasks.noop)}, lambda task: "tests.tasks.noop" in str(task.on_failure), True),
    "shard_key": ({"shard_key": "tenant-7"}, lambda task: task.shard_key, None),  # not stored: it chooses a database
}


@pytest.mark.parametrize("many", [False, True], ids=["one", "many"])
@pytest.mark.parametrize("option", USED)
def test_the_manager_honours_every_option_of_using(database, settings, option, many):
    settings.TASKS = settings.TASKS | {"mail": settings.TASKS["default"]}
    options, read, expected = USED[option]
    task = tasks.noop.using(**options)
    [made, *_] = Task.objects.enqueue_many([task, task]) if many else [Task.objects.enqueue(task)]
    assert read(now_of(made)) == expected


def test_using_has_no_option_that_is_not_honoured():
    assert set(inspect.signature(tasks.noop.using).parameters) == {option.partition(",")[0] for option in USED}


def test_what_the_request_asks_for_is_stronger_than_what_the_task_was_made_with(database):
    task = tasks.noop.using(run_after=timedelta(hours=3), priority=7, queue_name="bulk")
    made = Task.objects.enqueue(task, eta=timedelta(minutes=1), priority=0, queue="emails")
    assert (made.eta - made.created_at, made.priority, made.queue) == (timedelta(minutes=1), 0, "emails")


def test_calls_that_are_stored_together_keep_options_of_their_own(database):
    delays, queues = [1, 2], iter(["default", "emails", "default"])

    def requests():
        for priority in (1, 2, 1):
            yield {"func": tasks.noop, "priority": priority, "queue": next(queues), "backoff": delays}
            delays.append(3)

    stored = Task.objects.enqueue_many(requests())
    assert [(task.priority, task.queue) for task in stored] == [(1, "default"), (2, "emails"), (1, "default")]
    assert [task.backoff for task in stored] == [[1, 2], [1, 2, 3], [1, 2, 3, 3]]
