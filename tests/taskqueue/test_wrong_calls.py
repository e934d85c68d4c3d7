"""Calls that cannot be made are refused at enqueue, in words that say what to write instead."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from decimal import Decimal
from uuid import UUID

import pytest

from django_tasks_retry import call
from django_tasks_retry.errors import InvalidPayload, UnknownOption, WrongArguments
from django_tasks_retry.models import OperatorEvent, Task
from tests import tasks

MISFITS = {
    "manager": lambda: Task.objects.enqueue(tasks.add, [1]),
    "many": lambda: Task.objects.enqueue_many([(tasks.add, [1, 2]), (tasks.add, [1])]),
    "many by dictionaries": lambda: Task.objects.enqueue_many([{"func": tasks.add, "args": [1]}]),
    "framework": lambda: tasks.add.enqueue(1),
    "framework, by name": lambda: tasks.add.enqueue(a=1),
}


@pytest.mark.fault("enqueued_with_unfit_arguments")
@pytest.mark.parametrize("door", MISFITS)
def test_arguments_that_do_not_fit_the_function_are_refused_at_every_door(database, door):
    with pytest.raises(WrongArguments, match=r"tests\.tasks\.add\(a, b\) cannot take this call: missing .* '[ab]'"):
        MISFITS[door]()
    assert not Task.objects.exists()


OPTIONS = {
    "countdown": "Unknown option countdown=. Did you mean eta=timedelta(seconds=…)?",
    "routing_key": "Unknown option routing_key=. Did you mean queue=…?",
    "priorty": "Unknown option priorty=. Did you mean priority=?",
    "a": "a= is an argument of the function: give it as kwargs={'a': …}.",
    "xyz": "Unknown option xyz=. The options are eta, queue, priority",
}


@pytest.mark.parametrize("name", OPTIONS)
def test_an_unknown_option_is_told_by_its_name_here(database, name):
    for attempt in (
        lambda: Task.objects.enqueue(tasks.add, [1, 2], **{name: 5}),
        lambda: Task.objects.enqueue_many([{"func": tasks.add, "args": [1, 2], name: 5}]),
    ):
        with pytest.raises(UnknownOption) as refusal:
            attempt()
        assert str(refusal.value).startswith(OPTIONS[name])


DOORS = {
    "manager": lambda **options: Task.objects.enqueue(tasks.noop, **options),
    "many": lambda **options: Task.objects.enqueue_many([{"func": tasks.noop, **options}])[0],
    "call": lambda **options: Task.objects.enqueue_many([call(tasks.noop).using(**options)])[0],
    "framework": lambda **options: Task.objects.get(pk=tasks.noop.using(**options).enqueue().id),
}


@pytest.mark.parametrize("door", DOORS)
def test_eta_and_queue_are_known_by_the_frameworks_names_too_at_every_door(database, door):
    later = datetime(2090, 1, 1, tzinfo=UTC)
    for options in ({"eta": later, "queue": "bulk"}, {"run_after": later, "queue_name": "bulk"}):
        task = DOORS[door](**options)
        assert (task.eta, task.queue) == (later, "bulk")


@pytest.mark.parametrize("door", DOORS)
@pytest.mark.parametrize("names", [("run_after", "eta"), ("queue_name", "queue")])
def test_one_option_by_two_names_is_refused_at_every_door(database, door, names):
    with pytest.raises(UnknownOption, match=f"{names[0]}= and {names[1]}= are the same option. Give one of them."):
        DOORS[door](**dict.fromkeys(names, "bulk"))
    assert not Task.objects.exists()


INSTEAD = {
    "is a UUID, which is not JSON. Pass str(value)": UUID(int=1),
    "is a Decimal, which is not JSON. Pass str(value)": Decimal(1),
    "is a set, which is not JSON. Pass a list, such as sorted(value)": {1},
    "is a datetime, which is not JSON. Pass value.isoformat()": datetime(2026, 1, 1),
    "is a timedelta, which is not JSON. Pass value.total_seconds()": timedelta(1),
    "is an OperatorEvent, which is not JSON. Pass its primary key": OperatorEvent(pk=1),
    "is an object, which is not JSON. Pass plain data": object(),
}


@pytest.mark.parametrize("words", INSTEAD)
def test_what_to_pass_instead_is_told_by_type(database, words):
    with pytest.raises(InvalidPayload) as refusal:
        Task.objects.enqueue(tasks.noop, [INSTEAD[words]])
    assert words in str(refusal.value)
