"""Suspects: tasks whose last attempts died with their process. Ordinary claims leave them to a process of their own."""

from __future__ import annotations

from collections.abc import Callable

from ... import registry
from ...models import Task
from ..database import as_moment, database, fetch
from ..engines.statements import read_sql
from ..lease import as_uuid
from ..producer.new_tasks import new_task

SUSPECTS = read_sql("suspects")
MOST = 50


def find_suspects(serves: Callable[[str], bool], *, backend: str = "default") -> list[Task]:
    """Those that are due, of queues that are served and functions that this process knows; as far as a claim asks."""
    rows = fetch(SUSPECTS, {"backend": backend, "limit": MOST}, database(backend))
    return [
        new_task(id=as_uuid(task_id), queue=queue, priority=priority, eta=as_moment(eta), func_path=path, lane=lane)
        for task_id, queue, priority, eta, path, lane in rows
        if serves(queue) and registry.find(path)
    ]
