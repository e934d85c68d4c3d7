"""Functions behind decorators run as the framework's own backends run them, whatever the decorators do to arguments."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import pytest

from django_tasks_retry import retry
from django_tasks_retry.compat import Task as DjangoTask
from django_tasks_retry.compat import TaskResultStatus, task, task_backends
from django_tasks_retry.errors import WrongArguments
from django_tasks_retry.models import Task
from tests.steps import enqueue_unchecked

IMMEDIATE = f"{DjangoTask.__module__.partition('.base')[0]}.backends.immediate.ImmediateBackend"


def with_client(function: Callable[..., Any]) -> Any:
    """Gives an argument that the caller does not."""

    @functools.wraps(function)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        return function("client", *args, **kwargs)

    return wrapper


def with_client_behind_context(function: Callable[..., Any]) -> Any:
    @functools.wraps(function)
    def wrapper(context: Any, *args: Any) -> Any:
        return function(context, "client", *args)

    return wrapper


def with_client_awaited(function: Callable[..., Any]) -> Any:
    @functools.wraps(function)
    async def wrapper(*args: Any) -> Any:
        return await function("client", *args)

    return wrapper


def takes_execution_id(function: Callable[..., Any]) -> Any:
    """Takes an argument that the function does not."""

    @functools.wraps(function)
    def wrapper(*args: Any, execution_id: str, **kwargs: Any) -> Any:
        return [execution_id, function(*args, **kwargs)]

    return wrapper


def renames(function: Callable[..., Any]) -> Any:
    @functools.wraps(function)
    def wrapper(number: int) -> Any:
        return function(value=number)

    return wrapper


def takes_anything(function: Callable[..., Any]) -> Any:
    @functools.wraps(function)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        return function(*args[:1])

    return wrapper


@task
@with_client
def injected(client: str, number: int) -> Any:
    return [client, number]


@task
@takes_execution_id
def consumed(number: int) -> Any:
    return number


@task
@renames
def renamed(value: int) -> Any:
    return value


@task
@retry(max_attempts=2)
@takes_anything
def trimmed(number: int) -> Any:
    return number


@task(takes_context=True)
@with_client_behind_context
def with_context(context: Any, client: str, number: int) -> Any:
    return [client, context.attempt, number]


@task
@with_client_awaited
async def awaited(client: str, number: int) -> Any:
    return [client, number]


CALLS = {
    "gets an argument": (injected, [1], {}, ["client", 1]),
    "gives one up": (consumed, [1], {"execution_id": "x"}, ["x", 1]),
    "takes another name": (renamed, [], {"number": 1}, 1),
    "takes more": (trimmed, [1, 2, 3], {"more": 4}, 1),
    "gets one behind the context": (with_context, [1], {}, ["client", 1, 1]),
    "gets one and is awaited": (awaited, [1], {}, ["client", 1]),
}


@pytest.mark.fault("decorators_that_change_arguments")
@pytest.mark.parametrize("case", CALLS)
def test_a_decorated_function_runs_as_it_is(database, tasks, case):
    function, args, kwargs, expected = CALLS[case]
    function.enqueue(*args, **kwargs)
    Task.objects.enqueue(function, args, kwargs)
    assert [(run.status, run.return_value) for run in tasks.run_due()] == [(TaskResultStatus.SUCCESSFUL, expected)] * 2


@pytest.mark.parametrize("case", [case for case in CALLS if "context" not in case])
def test_the_frameworks_own_backend_agrees(database, settings, case):
    settings.TASKS = {"default": {"BACKEND": IMMEDIATE}}
    function, args, kwargs, expected = CALLS[case]
    assert task_backends["default"].enqueue(function, args, kwargs).return_value == expected


@pytest.mark.fault("decorators_that_change_arguments")
def test_what_the_decorator_itself_cannot_take_is_still_refused(database, tasks):
    with pytest.raises(WrongArguments, match="execution_id"):
        consumed.enqueue(1)
    enqueue_unchecked(consumed, [1])
    [run] = tasks.run_due()
    assert run.status == TaskResultStatus.FAILED
    assert Task.objects.get().last_error["code"] == "BAD_ARGUMENTS"
