"""System checks tell of lanes that cannot work before anything is enqueued."""

from __future__ import annotations

import pytest

from django_tasks_retry import lane, registry
from django_tasks_retry.checks import check_lanes
from django_tasks_retry.compat import task
from django_tasks_retry.conf import read_options
from django_tasks_retry.errors import InvalidOptions


@lane("tenant-{tenant}")
def wrong(tenant_id: int) -> None: ...


@lane("stripe", concurrency=1)
def pay() -> None: ...


@lane("stripe", concurrency=2)
def refund() -> None: ...


@pytest.fixture(autouse=True)
def _forget():
    registry.discover()
    before = dict(registry._tasks)
    yield
    registry._tasks.clear()
    registry._tasks.update(before)


def told() -> list[str]:
    return [message.msg for message in check_lanes()]


def test_the_tasks_of_the_tests_are_sound():
    assert told() == []


def test_an_argument_that_the_function_does_not_have_is_named():
    task(wrong)
    [message] = told()
    assert "the function has no argument 'tenant' (it has tenant_id)" in message


def test_two_functions_that_give_one_lane_different_limits_are_named():
    task(pay)
    task(refund)
    [message] = told()
    assert "'stripe' has other limits than" in message


@pytest.mark.parametrize(
    ("lanes", "why"),
    [
        ({"a": 2}, "give a Limit"),
        ({"a": {"runs": 2}}, "'runs' is no key"),
        ({"": {"concurrency": 2}}, "no pattern"),
        ({"queue:a": {"weight": 2}}, "order and weight are for lanes"),
        ([], "give a dictionary"),
    ],
)
def test_settings_that_make_no_sense_are_refused(lanes, why):
    with pytest.raises(InvalidOptions, match=why):
        read_options({"LANES": lanes}, "default")
