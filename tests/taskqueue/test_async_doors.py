"""Each door has a twin for coroutines, which does the same."""

from __future__ import annotations

from datetime import timedelta

import pytest
from asgiref.sync import async_to_sync

import django_tasks_retry
from django_tasks_retry import asignal, call, chain
from django_tasks_retry.errors import IllegalMove, UnknownOption
from django_tasks_retry.models import Signal, Task
from tests import tasks
from tests.steps import now_of


def test_enqueue_has_a_twin(database):
    row = async_to_sync(Task.objects.aenqueue)(tasks.add, [1], {"b": 2}, queue="emails", priority=5)
    assert (row.args, row.kwargs, row.queue, row.priority) == ([1], {"b": 2}, "emails", 5)
    with pytest.raises(UnknownOption):
        async_to_sync(Task.objects.aenqueue)(tasks.add, [1, 2], prioritty=5)


def test_enqueue_many_has_a_twin(database):
    assert len(async_to_sync(Task.objects.aenqueue_many)([(tasks.add, [1, 2]), (tasks.add, [3, 4])])) == 2
    assert async_to_sync(Task.objects.aenqueue_many)([(tasks.add, [1, 2])], returning=False) == 1
    [member] = async_to_sync(Task.objects.aenqueue_many)([call(tasks.add, 1, 2)], then=call(tasks.noop))
    assert member.batch is not None


def test_cancel_and_retry_have_twins(database):
    row = Task.objects.enqueue(tasks.add, [1, 2], eta=timedelta(hours=1))
    async_to_sync(row.acancel)(by="ana", reason="no need")
    assert now_of(row).status == "CANCELLED"
    again = async_to_sync(now_of(row).aretry)(by="ana", reason="after all")
    assert again.retry_of_id == row.pk
    with pytest.raises(IllegalMove):
        async_to_sync(again.aretry)()


def test_signals_and_chains_have_twins(database):
    assert async_to_sync(asignal)("approved", {"by": 7}, by="ana") is True
    assert Signal.objects.get().payload == {"by": 7}
    row = async_to_sync(chain(call(tasks.add, 1, 2), call(tasks.add, 3)).aenqueue)(priority=3)
    assert row.priority == 3


def test_the_package_has_the_context_and_no_other_name():
    assert django_tasks_retry.Context.__name__ == "Context"
    with pytest.raises(AttributeError, match="no attribute 'Surprise'"):
        django_tasks_retry.Surprise  # noqa: B018
