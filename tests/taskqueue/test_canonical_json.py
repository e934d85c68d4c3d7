"""Arguments and results come back as they were given, in one form on both databases."""

from __future__ import annotations

import enum
import json
from collections import OrderedDict, namedtuple

import pytest
from django.db import transaction
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from django_tasks_retry import taskqueue
from django_tasks_retry.models import Task
from django_tasks_retry.rules.payload import canonical, dump
from tests import tasks
from tests.steps import begin, claim_one, enqueue, now_of

texts = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\x00"), max_size=20)
leaves = (
    st.none() | st.booleans() | st.integers(-(2**80), 2**80) | st.floats(allow_nan=False, allow_infinity=False) | texts
)
values = st.recursive(
    leaves, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(texts, inner, max_size=4), max_leaves=12
)
few = settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
)


def same(one, other) -> bool:
    """Equal in value, in type and in the order of keys."""
    return json.dumps(one) == json.dumps(other)


@few
@given(values)
def test_the_canonical_form_is_stable(value):
    once = canonical(value, "x")
    assert same(canonical(once, "x"), once)
    assert once == value
    assert same(json.loads(dump(once)), once)


@pytest.mark.fault("data_changed_by_jsonb")
@few
@given(value=values, name=texts)
def test_a_round_trip_gives_the_same_value(database, value, name):
    with transaction.atomic(using=database):
        task = enqueue(tasks.noop, value, kwargs={name: value}, metadata={name: value})
        lease, stored = claim_one(), now_of(task)
        taskqueue.complete_task(lease, value)
        result = now_of(task).outcome.result
        transaction.set_rollback(True, using=database)
    expected = canonical(value, "x")
    assert same(task.args, [expected])
    assert same(lease.args, [expected])
    assert same(stored.args, [expected])
    for kwargs in (task.kwargs, lease.kwargs, stored.kwargs, task.metadata, lease.metadata, stored.metadata):
        assert same(kwargs, {name: expected})
    assert same(result, expected)
    assert expected == value


class Colour(str, enum.Enum):  # noqa: UP042 - whose str() is not its value
    RED = "red"


class Size(enum.IntEnum):
    BIG = 3


Point = namedtuple("Point", "x y")


@pytest.mark.parametrize(
    ("given_", "stored"),
    [
        ((1, 2), [1, 2]),
        (Point(1, 2), [1, 2]),
        (OrderedDict(bb=1, a=2), {"a": 2, "bb": 1}),
        (Colour.RED, "red"),
        (Size.BIG, 3),
        (-0.0, 0.0),
        (1e16, 10**16),
        (1e300, int(1e300)),
        (5e-324, 5e-324),
        ("\u2028 \U0001f600", "\u2028 \U0001f600"),
        ("\\u0000", "\\u0000"),
    ],
)
def test_plain_data_in_other_clothes(database, given_, stored):
    task = enqueue(tasks.noop, given_)
    assert same(task.args, [stored])
    assert same(now_of(task).args, [stored])
    assert same(claim_one().args, [stored])


def test_a_payload_of_exactly_64_kib_is_accepted(database):
    text = "x" * (65536 - len('[[""],{}]'))
    assert now_of(enqueue(tasks.noop, text)).args == [text]


@pytest.mark.fault("nul_surrogates_nan")
@pytest.mark.parametrize("result", [object(), float("nan"), "\x00", "\ud800", {1: 2}, "x" * 300_000])
def test_a_result_that_cannot_be_stored_fails_the_task_at_once(database, result):
    """Another attempt would only repeat the effect."""
    task, lease = begin(max_attempts=2)
    receipt = taskqueue.complete_task(lease, result)
    assert receipt.status == "FAILED"
    assert now_of(task).last_error["code"] == "RESULT_NOT_SERIALIZABLE"
    assert "The return value" in now_of(task).last_error["message"]


def test_no_result_is_stored_as_null_on_both_databases(database):
    task, lease = begin()
    taskqueue.complete_task(lease, None)
    assert now_of(task).outcome.result is None
    assert Task.objects.filter(outcome__result__isnull=True).get() == task
