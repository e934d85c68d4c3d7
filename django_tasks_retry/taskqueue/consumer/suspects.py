"""Suspects: tasks whose last attempts died with their process. Ordinary claims leave them to a process of their own."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from ... import registry
from ...models import Task
from ..database import as_moment, database, fetch
from ..engines.statements import read_sql
from ..lease import as_uuid
from ..producer.new_tasks import new_task

SUSPECTS = read_sql("suspects")
PAGE = 200


class Suspects(NamedTuple):
    """Of one page, those that this process may run."""

    tasks: list[Task]
    next_page: int
    """Where to go on; 0 behind the last page."""


def find_suspects(serves: Callable[[str], bool], page: int = 0, *, backend: str = "default") -> Suspects:
    """Those that are due, of queues that are served and functions that this process knows, the oldest first."""
    rows = fetch(SUSPECTS, {"backend": backend, "limit": PAGE, "offset": page * PAGE}, database(backend))
    tasks = [
        new_task(id=as_uuid(task_id), queue=queue, priority=priority, eta=as_moment(eta), func_path=path, lane=lane)
        for task_id, queue, priority, eta, path, lane in rows
        if serves(queue) and registry.find(path)
    ]
    return Suspects(tasks, page + 1 if len(rows) == PAGE else 0)
