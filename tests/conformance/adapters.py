"""Our backend in the roles of Django's own two, so that their tests can be asked of it."""

from __future__ import annotations

from typing import Any

from asgiref.sync import sync_to_async
from django.core.management.color import no_style
from django.db import connections

from django_tasks_retry.backend import RetryBackend
from django_tasks_retry.models import Task, TaskEvent, TaskResult
from django_tasks_retry.taskqueue import database
from django_tasks_retry.testing import Tasks


class Dummy(RetryBackend):
    """Keeps what was enqueued as it reads back from the database, so that equality is asked of the stored row."""

    def __init__(self, alias: str, params: dict[str, Any]) -> None:
        super().__init__(alias, params)
        self.results: list[Any] = []

    def enqueue(self, task: Any, args: Any, kwargs: Any) -> Any:
        result = super().enqueue(task, args, kwargs)
        self.results.append(self.get_result(result.id))
        return result

    def clear(self) -> None:
        self.results.clear()
        connection = connections[database(self.alias)]
        tables = [model._meta.db_table for model in (Task, TaskEvent, TaskResult)]
        connection.ops.execute_sql_flush(connection.ops.sql_flush(no_style(), tables))


class Immediate(RetryBackend):
    """Runs a task at once, in one attempt."""

    def enqueue_options(self, task: Any, args: Any, kwargs: Any) -> Any:
        return super().enqueue_options(task, args, kwargs)._replace(max_attempts=1)

    def enqueue(self, task: Any, args: Any, kwargs: Any) -> Any:
        result = super().enqueue(task, args, kwargs)
        Tasks(backend=self.alias).run_due()
        result.refresh()
        return result

    async def aenqueue(self, task: Any, args: Any, kwargs: Any) -> Any:
        return await sync_to_async(self.enqueue)(task, args, kwargs)
