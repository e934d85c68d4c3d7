from __future__ import annotations

import sys
from datetime import timedelta
from functools import partial

import django  # noqa: F401 - named in skip conditions
import pytest

from django_tasks_retry import Abort, Exponential, Retry, Snooze, retry
from django_tasks_retry.compat import CORE_HAS_TASKS, task, task_backends
from django_tasks_retry.errors import InvalidPolicy
from django_tasks_retry.models import Task
from django_tasks_retry.rules.policy import policy_of
from tests.backend import samples

ALL_BACKENDS = {
    "default": {"BACKEND": "django_tasks_retry.backend.RetryBackend", "QUEUES": []},
    **{
        name: {"BACKEND": f"{'django.tasks' if CORE_HAS_TASKS else 'django_tasks'}.backends.{name}.{cls}", "QUEUES": []}
        for name, cls in {"immediate": "ImmediateBackend", "dummy": "DummyBackend"}.items()
    },
}


async def slow_backoff(exception, task_result):
    return 1


def plain() -> int:
    return 1


async def coroutine() -> None:
    """Nothing."""


@pytest.mark.parametrize(
    ("keywords", "field", "fix"),
    [
        ({"max_attempts": 0}, "max_attempts=0", "whole number from 1"),
        ({"max_attempts": True}, "max_attempts=True", "whole number from 1"),
        ({"max_attempts": 2.5}, "max_attempts=2.5", "whole number from 1"),
        ({"timeout": 0}, "timeout=0", "more than zero"),
        ({"timeout": -1}, "timeout=-1", "more than zero"),
        ({"timeout": "30"}, "timeout='30'", "seconds"),
        ({"backoff": []}, "backoff=[]", "max_attempts=1"),
        ({"backoff": [5, -1]}, "backoff=[5, -1]", "zero or more"),
        ({"backoff": 300}, "backoff=300", "list of seconds"),
        ({"backoff": lambda e, r: 1}, "backoff=", "module level"),
        ({"backoff": partial(samples.ask)}, "backoff=", "module level"),
        ({"backoff": Exponential}, "backoff=Exponential", "Exponential()"),
        ({"backoff": slow_backoff}, "backoff=slow_backoff", "plain function"),
        ({"retry_on": ValueError}, "retry_on=ValueError", "retry_on=(ValueError,)"),
        ({"abort_on": ["ValueError"]}, "abort_on=['ValueError']", "tuple of exception classes"),
        ({"retry_on": (OSError,), "max_attempts": 1}, "max_attempts=1", "leave retry_on out"),
        ({"retry_on": (OSError,), "abort_on": (OSError,)}, "retry_on=(OSError)", "one of the two"),
        ({"retry_on": (ConnectionError,), "abort_on": (OSError,)}, "retry_on=(ConnectionError)", "one of the two"),
        ({"retry_on": (Abort,)}, "retry_on=(Abort)", "one of the two"),
        ({"abort_on": (Snooze,)}, "abort_on=(Snooze)", "Take it out"),
        ({"abort_on": (Retry,)}, "abort_on=(Retry)", "Take it out"),
        ({"atomic": "yes"}, "atomic='yes'", "True or False"),
    ],
)
def test_a_nonsense_policy_raises_where_it_is_written_and_names_field_and_fix(keywords, field, fix):
    with pytest.raises(InvalidPolicy) as raised:
        retry(**keywords)
    assert field in str(raised.value)
    assert fix in str(raised.value)


def test_a_narrower_abort_than_retry_is_no_contradiction():
    function = retry(retry_on=(OSError,), abort_on=(ConnectionError,))(lambda: None)
    policy = policy_of(function)
    assert policy.gives_up_on(ConnectionError())
    assert not policy.gives_up_on(TimeoutError())
    assert policy.gives_up_on(KeyError())


def test_retry_above_task_says_where_it_belongs():
    with pytest.raises(InvalidPolicy, match="write it below"):
        retry(max_attempts=2)(samples.look)


def test_two_different_policies_on_one_function_are_refused():
    def function() -> None:
        """Nothing."""

    retry(max_attempts=2)(function)
    retry(max_attempts=2)(function)
    with pytest.raises(InvalidPolicy, match="keep one"):
        retry(max_attempts=3)(function)


def test_a_coroutine_function_cannot_be_atomic():
    with pytest.raises(InvalidPolicy, match="atomic=True"):
        retry(atomic=True)(coroutine)


def test_retry_returns_the_very_function():
    assert retry(max_attempts=3)(plain) is plain
    del plain.retry_policy


@pytest.mark.parametrize("backend", sorted(ALL_BACKENDS))
def test_a_policy_on_the_function_works_with_every_backend(database, settings, monkeypatch, backend):
    settings.TASKS = ALL_BACKENDS
    function = plain
    decorated = task(backend=backend)(retry(max_attempts=4, backoff=[1, 2, 3], timeout=30)(function))
    monkeypatch.setattr(sys.modules[__name__], "plain", decorated)  # results are copied by the path of their task
    try:
        assert decorated.call() == 1
        assert decorated.using(priority=0).enqueue().task.func is function
        assert policy_of(decorated.func).max_attempts == 4
    finally:
        del function.retry_policy


def test_the_policy_reaches_the_row(database):
    result = samples.fail_twice.enqueue("x")
    row = Task.objects.get(pk=result.id)
    assert (row.max_attempts, row.backoff, row.timeout) == (3, [10, 20], 3600)


@pytest.mark.skipif("django.VERSION[:2] == (6, 0)", reason="Django 6.0 does not pass keywords of @task on")
def test_the_same_names_work_as_keywords_of_task(database):
    try:
        decorated = task(max_attempts=4, backoff=[300, 900, 3600], timeout=timedelta(seconds=30), atomic=False)(plain)
        variant = decorated.using(priority=5, queue_name="emails")
        assert variant.max_attempts == 4
        row = Task.objects.get(pk=variant.enqueue().id)
        assert (row.max_attempts, row.backoff, row.timeout, row.priority) == (4, [300, 900, 3600], 30, 5)
    finally:
        del plain.retry_policy


@pytest.mark.skipif("django.VERSION[:2] == (6, 0)", reason="Django 6.0 does not pass keywords of @task on")
def test_nonsense_keywords_of_task_raise_where_they_are_written():
    with pytest.raises(InvalidPolicy, match="max_attempts=0"):
        task(max_attempts=0)(plain)


def test_keywords_of_task_that_contradict_its_retry_are_refused():
    retry(max_attempts=2)(plain)
    try:
        with pytest.raises(InvalidPolicy, match="keep one"):
            task_backends["default"].task_class(
                func=plain, priority=0, backend="default", queue_name="default", run_after=None, takes_context=False,
                max_attempts=3,
            )  # fmt: skip
    finally:
        del plain.retry_policy
