"""Tables that mislead a planner: crowds of tasks that no verb should read, and statistics that are wrong about them."""

from __future__ import annotations

from collections.abc import Callable

from django.db import connections

from django_tasks_retry import taskqueue
from tests import tasks

USING = "postgresql"
CROWD = 100_000
DUE = 300

TABLES = "django_tasks_retry_task, django_tasks_retry_taskresult, django_tasks_retry_taskevent"

# Ids rise with time, and all are older than those that the tests enqueue.
LOAD = """
INSERT INTO django_tasks_retry_task (
    id, run_id, func_path, args, kwargs, queue, priority, backend, status, eta, attempts, max_attempts, refunds,
    timeout, interval, locked_by, lock_expires_at, unique_key, metadata, created_at, updated_at, finished_at
)
SELECT id, id, 'tests.tasks.noop', '[]', '{{}}', 'default', {priority}, 'default', '{status}',
    now() + interval '{eta}' + n * interval '1 ms', {attempts}, 5, 0,
    3600, 0, {locked_by}, {lock_expires_at}, 'crowd-' || n, '{{}}', now(), now(), {finished_at}
FROM generate_series({first}, {first} + {count} - 1) AS n
CROSS JOIN LATERAL (SELECT ('01900000-0000-7000-8000-' || lpad(to_hex(n), 12, '0'))::uuid AS id) AS made
"""
RESULTS = """
INSERT INTO django_tasks_retry_taskresult (task_id, status, attempts, finished_at)
SELECT id, status, attempts, finished_at FROM django_tasks_retry_task WHERE status = 'SUCCESS'
"""
IN_STATUS = {
    "PENDING": {"attempts": "0", "locked_by": "NULL", "lock_expires_at": "NULL", "finished_at": "NULL"},
    "RUNNING": {
        "attempts": "1", "locked_by": "'crowd/1'", "lock_expires_at": "now() + interval '1 h'", "finished_at": "NULL",
    },
    "SUCCESS": {
        "attempts": "1", "locked_by": "NULL", "lock_expires_at": "NULL", "finished_at": "now() - interval '1 year'",
    },
}  # fmt: skip


def execute(sql: str) -> None:
    with connections[USING].cursor() as cursor:
        cursor.execute(sql)


def load(status: str, *, count: int = CROWD, first: int = 1, priority: int = 0, eta: str = "-1 hour") -> None:
    """Rows at once, past the guard, which would refuse tasks that begin as anything but PENDING."""
    execute("ALTER TABLE django_tasks_retry_task DISABLE TRIGGER USER")
    execute(LOAD.format(status=status, count=count, first=first, priority=priority, eta=eta, **IN_STATUS[status]))
    if status == "SUCCESS":
        execute(RESULTS)
    execute("ALTER TABLE django_tasks_retry_task ENABLE TRIGGER USER")


def analyze() -> None:
    for table in TABLES.split(", "):
        execute(f"ANALYZE {table}")


def empty() -> None:
    execute(f"TRUNCATE {TABLES}")


def enqueue_due(count: int = DUE) -> None:
    taskqueue.enqueue_many(taskqueue.Request(tasks.noop) for _ in range(count))


def believe(status: str) -> None:
    """Statistics that say that every task has this status."""
    load(status)
    analyze()
    empty()


def future_tasks() -> None:
    load("PENDING", eta="1 day")
    enqueue_due()
    analyze()


def future_tasks_of_higher_priority() -> None:
    load("PENDING", eta="1 day", priority=50)
    load("PENDING", eta="1 day", priority=49, first=CROWD + 1)
    enqueue_due()
    analyze()


def finished_tasks() -> None:
    load("SUCCESS")
    enqueue_due()
    analyze()


def a_burst_into_a_table_analysed_empty() -> None:
    analyze()
    load("PENDING", priority=-1)
    enqueue_due()


def a_burst_into_a_table_believed_finished() -> None:
    believe("SUCCESS")
    load("PENDING", priority=-1)
    enqueue_due()


def finished_tasks_believed_pending() -> None:
    believe("PENDING")
    load("SUCCESS")
    enqueue_due()


def finished_tasks_believed_running() -> None:
    believe("RUNNING")
    load("SUCCESS")
    enqueue_due()


def running_tasks_never_analysed() -> None:
    load("RUNNING")
    enqueue_due()


CROWDS: list[Callable[[], None]] = [
    future_tasks,
    future_tasks_of_higher_priority,
    finished_tasks,
    a_burst_into_a_table_analysed_empty,
    a_burst_into_a_table_believed_finished,
    finished_tasks_believed_pending,
    finished_tasks_believed_running,
    running_tasks_never_analysed,
]
