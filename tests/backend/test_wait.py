"""A result can be waited for, by a thread or a coroutine."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest
from asgiref.sync import async_to_sync
from django.db import connections

from django_tasks_retry.errors import InvalidCall
from django_tasks_retry.testing import Tasks
from tests import tasks


def run_elsewhere(using: str) -> threading.Thread:
    def run() -> None:
        kit = Tasks()
        kit.run_due()
        kit.close()
        connections[using].close()

    thread = threading.Thread(target=run)
    thread.start()
    return thread


def test_wait_returns_what_the_task_returned(committed: str) -> None:
    result: Any = tasks.add.enqueue(1, 2)
    thread = run_elsewhere(committed)
    assert result.wait(60) == 3
    thread.join()
    assert (result.status, result.wait()) == ("SUCCESSFUL", 3)


def test_a_coroutine_awaits_the_result(committed: str) -> None:
    result: Any = tasks.add.enqueue(1, 2)
    thread = run_elsewhere(committed)

    async def ask() -> Any:
        return await asyncio.wait_for(result, 60)

    assert async_to_sync(ask)() == 3
    thread.join()


def test_a_task_that_does_not_end_in_time_is_a_timeout(committed: str) -> None:
    result: Any = tasks.add.enqueue(1, 2)
    with pytest.raises(TimeoutError, match=r"has not ended in time; its status is READY"):
        result.wait(0)


def test_a_failed_task_raises_as_return_value_does(database: str) -> None:
    result: Any = tasks.explode.enqueue()
    kit = Tasks()
    kit.run_until_idle()
    kit.close()
    with pytest.raises(ValueError, match="Task failed"):
        result.wait(1)


def test_a_wait_within_a_transaction_is_refused(database: str) -> None:
    result: Any = tasks.add.enqueue(1, 2)
    with pytest.raises(InvalidCall, match="workers see the task after the commit"):
        result.wait(1)
