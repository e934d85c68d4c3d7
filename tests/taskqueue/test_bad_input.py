"""Bad input: an error that names the argument and says what to do, and nothing half-written."""

from __future__ import annotations

import functools
from datetime import date, datetime, timedelta
from decimal import Decimal
from uuid import uuid4

import pytest
from django.db import IntegrityError, transaction
from django.utils import timezone

from django_tasks_retry.errors import InvalidCall, InvalidPayload, InvalidPolicy, UnknownQueue, UnregisteredTask
from django_tasks_retry.models import Task
from django_tasks_retry.taskqueue import EnqueueOptions
from django_tasks_retry.taskqueue.enqueue.enqueue import prepare
from django_tasks_retry.taskqueue.enqueue.insert import insert
from tests import tasks
from tests.steps import enqueue


def undecorated(x):
    return x


def make_local():
    def local():
        pass

    return local


def deep(levels):
    value = []
    for _ in range(levels):
        value = [value]
    return value


def cycle():
    value = []
    value.append(value)
    return value


class Callable:
    def __call__(self):
        pass


@pytest.fixture(autouse=True)
def nothing_is_written(database):
    yield
    assert Task.objects.count() == 0


FUNCTIONS = {
    "lambda": (lambda: None, "local function"),
    "local": (make_local(), "local function"),
    "undecorated": (undecorated, "not a registered task"),
    "partial": (functools.partial(undecorated, 1), "lambda or a local function"),
    "callable object": (Callable(), "lambda or a local function"),
    "builtin": (len, "not a registered task"),
    "method": (Task.cancel, "not a registered task"),
    "path": ("tests.tasks.noop", "not a function"),
    "none": (None, "not a function"),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_function_that_workers_cannot_find(name):
    function, what = FUNCTIONS[name]
    with pytest.raises(UnregisteredTask, match=what) as error:
        enqueue(function)
    assert "@task" in str(error.value)


def test_a_function_shadowed_by_another_of_the_same_name():
    def impostor():
        pass

    impostor.__module__, impostor.__qualname__ = "tests.tasks", "noop"
    with pytest.raises(UnregisteredTask, match=r"tests\.tasks\.noop is not a registered task"):
        enqueue(impostor)


NOT_JSON = {
    "object": (object(), "is an object, which is not JSON"),
    "set": ({1}, "is a set"),
    "bytes": (b"x", "is a bytes"),
    "date": (date(2026, 1, 1), "is a date"),
    "uuid": (uuid4(), "is a UUID"),
    "decimal": (Decimal(1), "is a Decimal"),
    "nan": (float("nan"), "is nan, which JSON cannot express"),
    "infinity": (float("-inf"), "is -inf"),
    "nul": ("a\x00b", r"U\+0000 at position 1"),
    "surrogate": ("\ud800", r"U\+D800"),
    "huge number": (1 << 5000, "5001 bits"),
    "deep": (deep(70), "deeper than 64 levels"),
    "cycle": (cycle(), "deeper than 64 levels"),
}


@pytest.mark.fault("nul_surrogates_nan", "nested_too_deep")
@pytest.mark.parametrize("name", NOT_JSON)
def test_an_argument_that_is_not_json_is_named(name):
    value, what = NOT_JSON[name]
    with pytest.raises(InvalidPayload, match=rf"args\[1\].*{what}"):
        enqueue(tasks.noop, "fine", value)
    with pytest.raises(InvalidPayload, match=rf"kwargs\['order'\].*{what}"):
        enqueue(tasks.noop, kwargs={"order": value})
    with pytest.raises(InvalidPayload, match=rf"metadata\['order'\].*{what}"):
        enqueue(tasks.noop, metadata={"order": value})


def test_the_place_inside_an_argument_is_named():
    with pytest.raises(InvalidPayload, match=r"args\[0\]\['lines'\]\[2\]\['price'\] is a Decimal"):
        enqueue(tasks.noop, {"lines": [{}, {}, {"price": Decimal(1)}]})


@pytest.mark.parametrize("key", [1, None, (1, 2), 1.5, True])
def test_a_key_that_is_no_string(key):
    with pytest.raises(InvalidPayload, match=r"args\[0\] has the key .* convert it with str\(\)"):
        enqueue(tasks.noop, {key: 1})


@pytest.mark.parametrize("key", ["a\x00", "\udfff"])
def test_a_key_that_no_database_stores(key):
    with pytest.raises(InvalidPayload, match=r"a key of args\[0\] holds the character U\+"):
        enqueue(tasks.noop, {key: 1})


@pytest.mark.fault("too_large")
@pytest.mark.parametrize(
    "options", [{"args": ["x" * 65536]}, {"kwargs": {"x": "é" * 32768}}, {"metadata": {"x": "y" * 65536}}]
)
def test_a_payload_over_64_kib(options):
    with pytest.raises(InvalidPayload, match=r"takes more than 65,536 bytes as JSON\. .*pass its id"):
        Task.objects.enqueue(tasks.noop, **options)


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({"args": "abc"}, "args='abc': give a list"),
        ({"args": 5}, "args=5"),
        ({"args": {"a": 1}}, "args={'a': 1}"),
        ({"kwargs": [1]}, r"kwargs=\[1\]: give a dictionary"),
        ({"metadata": "x"}, "metadata='x': give a dictionary"),
        ({"eta": "tomorrow"}, "eta='tomorrow': give an aware datetime"),
        ({"eta": datetime(2030, 1, 1)}, r"eta=.*give an aware datetime \(USE_TZ is True\)"),
        ({"eta": timedelta(seconds=-1)}, "eta=.*from zero to ten years"),
        ({"eta": timedelta.max}, "eta=.*ten years"),
        ({"eta": timezone.now().replace(year=9999)}, "eta=.*give a year"),
        ({"priority": 101}, "priority=101: give a whole number from -100 to 100"),
        ({"priority": 1.5}, r"priority=1\.5"),
        ({"priority": True}, "priority=True"),
        ({"interval": -1}, "interval=-1: give seconds"),
        ({"interval": timedelta(seconds=-1)}, "interval="),
        ({"interval": float("nan")}, "interval=nan"),
        ({"interval": float("inf")}, "interval=inf"),
        ({"interval": 1e300}, r"interval=1e\+300.*ten years"),
        ({"interval": 1e-6}, r"interval=1e-06.*from 0\.001"),
        ({"interval": "60"}, "interval='60'"),
        ({"unique_key": ""}, "unique_key='': give a text of 1 to 200"),
        ({"unique_key": "x" * 201}, "unique_key="),
        ({"unique_key": 7}, "unique_key=7"),
        ({"unique_key": "a\x00"}, "unique_key holds the character"),
        ({"queue": ""}, "queue='': give a text"),
        ({"queue": 5}, "queue=5"),
    ],
)  # fmt: skip
def test_an_option_that_makes_no_sense_is_named(options, named):
    with pytest.raises(InvalidCall, match=named):
        Task.objects.enqueue(tasks.noop, **options)


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({"max_attempts": 0}, r"max_attempts=0: give a whole number from 1 \(no retries\)"),
        ({"max_attempts": -3}, "max_attempts=-3"),
        ({"max_attempts": 2.5}, r"max_attempts=2\.5"),
        ({"max_attempts": True}, "max_attempts=True"),
        ({"max_attempts": 10_001}, "max_attempts=10001"),
        ({"timeout": 0}, "timeout=0"),
        ({"timeout": -1}, "timeout=-1: give seconds, more than zero"),
        ({"timeout": timedelta(seconds=-1)}, "timeout="),
        ({"timeout": "1h"}, "timeout='1h'"),
        ({"timeout": float("nan")}, "timeout=nan"),
        ({"backoff": []}, r"backoff=\[\]: .*max_attempts=1"),
        ({"backoff": [5, -1]}, r"backoff=\[5, -1\]: -1 is not a number of seconds"),
        ({"backoff": ["5"]}, r"backoff=\['5'\]"),
        ({"backoff": 5}, "backoff=5: give a list of seconds"),
        ({"backoff": lambda e, r: 1}, "backoff=.*module level"),
        ({"backoff": undecorated}, r"backoff=.*undecorated: .*@retry\(backoff=…\)"),
    ],
)
def test_a_policy_that_makes_no_sense_is_named(options, named):
    with pytest.raises(InvalidPolicy, match=named):
        Task.objects.enqueue(tasks.noop, **options)


def test_an_unknown_queue_gets_a_suggestion():
    with pytest.raises(UnknownQueue) as error:
        enqueue(queue="email")
    assert str(error.value) == (
        "Queue 'email' is not in TASKS['default']['QUEUES'] (default, emails, reports, bulk). Did you mean 'emails'?"
    )


def test_an_unknown_option_of_enqueue():
    with pytest.raises(TypeError, match="etaa"):
        enqueue(etaa=timedelta(0))


BAD_ITEMS = [
    (tasks.noop, [object()]), {"func": tasks.noop, "queue": "nope"}, undecorated, {"func": tasks.noop, "priority": 500},
]  # fmt: skip


@pytest.mark.parametrize("bad", BAD_ITEMS)
def test_one_bad_item_among_many_and_none_is_written(bad):
    with pytest.raises(InvalidCall):
        Task.objects.enqueue_many([tasks.noop, (tasks.add, [1, 2]), bad, tasks.noop])


def test_one_item_that_the_database_refuses_and_none_is_written(database):
    """Even where it got past every check of ours."""
    prepared = [prepare(EnqueueOptions(tasks.noop)) for _ in range(3)]
    prepared[1].timeout = -1.0
    with pytest.raises(IntegrityError), transaction.atomic(using=database):
        insert(prepared, database)
