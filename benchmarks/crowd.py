"""Many other tasks in our table, loaded past the guard."""

from __future__ import annotations

from tests.plans.rows import IN_STATUS, LOAD, RESULTS

from .server import Server

TABLES = ("django_tasks_retry_task", "django_tasks_retry_taskresult", "django_tasks_retry_taskevent")
EVENTS = """
INSERT INTO django_tasks_retry_taskevent (task_id, kind, ts, attempt, actor, data)
SELECT id, kind, finished_at, 1, 'crowd/1', '{}' FROM django_tasks_retry_task
CROSS JOIN (VALUES ('task.running'), ('task.completed')) AS told (kind) WHERE status = 'SUCCESS'
"""
KINDS = {
    "future": {"status": "PENDING", "priority": 0, "eta": "1 day"},
    "future, more urgent": {"status": "PENDING", "priority": 50, "eta": "1 day"},
    "finished": {"status": "SUCCESS", "priority": 0, "eta": "-1 hour"},
    "due": {"status": "PENDING", "priority": 0, "eta": "-1 hour"},
}


def load(server: Server, database: str, kind: str, count: int) -> None:
    chosen = {"path": "benchmarks.tasks.noop", **KINDS[kind]}
    with server.connect(database) as connection:
        for table in TABLES:
            connection.execute(f"ALTER TABLE {table} DISABLE TRIGGER USER")
        connection.execute(LOAD.format(count=count, first=1, **chosen, **IN_STATUS[str(chosen["status"])]))
        if kind == "finished":
            connection.execute(RESULTS)
            connection.execute(EVENTS)
        for table in TABLES:
            connection.execute(f"ALTER TABLE {table} ENABLE TRIGGER USER")
