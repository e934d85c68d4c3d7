"""Tables that mislead a planner: crowds of tasks that no verb should read, and statistics that are wrong about them."""

from __future__ import annotations

from collections.abc import Callable

from django.db import connections

from django_tasks_retry import taskqueue
from tests import tasks
from tests.plans.rows import IN_STATUS, LOAD, RESULTS

USING = "postgresql"
CROWD = 100_000
DUE = 300

TABLES = "django_tasks_retry_task, django_tasks_retry_taskresult, django_tasks_retry_taskevent"


def execute(sql: str) -> None:
    with connections[USING].cursor() as cursor:
        cursor.execute(sql)


def load(status: str, *, count: int = CROWD, first: int = 1, priority: int = 0, eta: str = "-1 hour") -> None:
    """Rows at once, past the guard, which would refuse tasks that begin as anything but PENDING."""
    guard("DISABLE")
    wanted = {"path": "tests.tasks.noop", "status": status, "priority": priority, "eta": eta, **IN_STATUS[status]}
    execute(LOAD.format(count=count, first=first, **wanted))
    if status == "SUCCESS":
        execute(RESULTS)
    guard("ENABLE")


def guard(verb: str) -> None:
    for table in TABLES.split(", "):
        execute(f"ALTER TABLE {table} {verb} TRIGGER USER")


def analyze() -> None:
    for table in TABLES.split(", "):
        execute(f"ANALYZE {table}")


def empty() -> None:
    execute(f"TRUNCATE {TABLES}")


def enqueue_due(count: int = DUE) -> None:
    taskqueue.enqueue_many(taskqueue.EnqueueOptions(tasks.noop) for _ in range(count))


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
