"""The console stays fast: few statements, none of which reads a table of tasks from end to end."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from django.db import connections
from django.test.utils import CaptureQueriesContext

from django_tasks_retry.admin.parts import filters
from django_tasks_retry.models import Task
from django_tasks_retry.selection import payload
from django_tasks_retry.taskqueue import timeouts
from tests.admin import scene

BASE = "/admin/django_tasks_retry"
ROWS = {"postgresql": 300_000, "default": 20_000}
TASK_TABLES = re.compile(r"django_tasks_retry_task(?:result|event)?\b")
LISTS = [
    "", "?p=3", "?status=failed", "?status=retrying", "?status=running", "?status=success", "?status=cancelled",
    "?status=scheduled", "?status=ready", "?queue=emails", "?queue=rare", "?queue=rare&status=success", "?window=24h",
    "?window=15m&queue=rare", "?status=failed&window=7d", "?task=tests.tasks.noop", "?task=nobody.knows", "?q=018bcfe5",
    "?q=queue:rare", "?q=task:noop", "?q=error:boom", "?q=error:boom&status=retrying", "?fingerprint=00000000000000a1",
    "?fingerprint=00000000000000a1&status=failed", "?fingerprint=00000000000000a1&status=retrying",
    "?q=arg:4711", "?q=meta:tenant=acme", "?q=worker:w-1", "?q=status:success", "?q=since:1h",
    "?older=018bcfe8-0000-7000-8000-000000000000", "?older=018bcfe8-0000-7000-8000-000000000000&queue=rare",
]  # fmt: skip

BESIDE = [
    "INSERT INTO django_tasks_retry_taskresult (task_id, status, attempts, finished_at) "
    "SELECT id, status, attempts, finished_at FROM django_tasks_retry_task WHERE finished_at IS NOT NULL LIMIT 50000",
    "INSERT INTO django_tasks_retry_taskevent (task_id, kind, ts, attempt, actor, data) "
    "SELECT id, 'task.running', created_at, 1, 'w-1/1', '{}' FROM django_tasks_retry_task LIMIT 50000",
    "ANALYZE django_tasks_retry_taskresult",
    "ANALYZE django_tasks_retry_taskevent",
]
"""Results and events of some of them, so that the planner does not take their tables for empty."""

GUARDED = ("django_tasks_retry_task", "django_tasks_retry_taskresult", "django_tasks_retry_taskevent")
FILL = Path(__file__).with_name("fill.sql").read_text(encoding="utf-8")


@pytest.fixture
def full(database: str) -> str:
    """Many tasks of every kind, without the guard, which would ask each how it came to be."""
    if database != "postgresql":
        scene.play(database)
        return database
    with connections[database].cursor() as cursor:
        for table in GUARDED:
            cursor.execute(f"ALTER TABLE {table} DISABLE TRIGGER USER")
        cursor.execute(FILL, {"rows": ROWS[database]})
        for sql in [*BESIDE, "ANALYZE django_tasks_retry_task"]:
            cursor.execute(sql)
        for table in GUARDED:
            cursor.execute(f"ALTER TABLE {table} ENABLE TRIGGER USER")
    return database


def asked(client: Any, url: str, using: str) -> list[str]:
    """The statements about tasks that a page needs."""
    with CaptureQueriesContext(connections[using]) as queries:
        assert client.get(url).status_code == 200, url
    return [query["sql"] for query in queries if is_read(query["sql"])]


def is_read(sql: str) -> bool:
    """An estimate asks the planner alone."""
    return bool(TASK_TABLES.search(sql)) and not sql.startswith("EXPLAIN")


def check_plan(sql: str, using: str) -> None:
    with connections[using].cursor() as cursor:
        if using == "postgresql":
            cursor.execute("EXPLAIN " + sql.replace("%", "%%"), [])
            plan = "\n".join(row[0] for row in cursor.fetchall())
            assert "Seq Scan on django_tasks_retry_task" not in plan, f"{sql}\n{plan}"
        else:
            cursor.execute("EXPLAIN QUERY PLAN " + sql.replace("%", "%%"), [])
            plan = [row[3] for row in cursor.fetchall()]
            walks = [step for step in plan if step.startswith("SCAN django_tasks_retry_task") and "INDEX" not in step]
            assert not walks, f"{sql}\n{plan}"
        assert "COUNT(*)" not in sql
        assert "DISTINCT" not in sql


def test_the_list_asks_at_most_three_questions_a_look_and_none_reads_the_table(full, operator):
    """Beside them three: which queues have waiting tasks, with lanes and without, and which rows were retried."""
    for query in LISTS:
        statements = asked(operator, f"{BASE}/task/{query}", full)
        looked_twice = any(
            f"OFFSET {filters.LOOK_FURTHER_BACK}" in sql for sql in statements
        )  # nothing among the newest: more are looked at
        pages = filters.MAX_CANDIDATES // payload.PAGE + 1 if "arg:" in query or "meta:" in query else 0
        searched = 1 if "error:" in query else 0  # the groups, and then their texts
        assert len(statements) <= (6 if looked_twice else 3 + searched) + 3 + 2 * pages, (query, statements)
        for sql in statements:
            check_plan(sql, full)


def test_failures_ask_at_most_five_questions_and_none_reads_the_table(full, operator):
    """Large groups are counted twice: up to a thousand, then further with an estimate."""
    statements = asked(operator, f"{BASE}/failuregroup/", full)
    assert len(statements) <= 5
    fingerprint = Task.objects.filter(fingerprint__isnull=False, status="FAILED").first().fingerprint
    comparison = 9  # what changed since it last worked, and the arguments to narrow by
    for page, most in (("?q=boom", 6), (f"{fingerprint}/", 6 + comparison)):
        found = asked(operator, f"{BASE}/failuregroup/{page}", full)
        assert len(found) <= most
        statements += found
    for sql in statements:
        check_plan(sql, full)


def test_the_overview_asks_a_bounded_number_of_questions_and_none_reads_the_table(full, operator):
    """Eight of them are for the verdict, which explains three kinds of late tasks at most."""
    statements = asked(operator, f"{BASE}/overview/", full)
    assert len(statements) <= 25
    for sql in statements:
        check_plan(sql, full)


def test_no_other_page_reads_the_table(full, operator):
    some = [
        Task.objects.filter(status=status).first()
        for status in ("PENDING", "RUNNING", "SUCCESS", "FAILED", "CANCELLED")
    ]
    child = Task.objects.filter(parent__isnull=False).first()
    pages = [f"task/{task.pk}/change/" for task in [*some, child] if task is not None]
    pages += [f"task/run/{task.run_id}/" for task in [child] if task is not None]
    functions = ["taskfunction/", "taskfunction/?function=tests.tasks.noop"]
    for page in ["queue/", "worker/", *functions, *pages]:
        for sql in asked(operator, f"{BASE}/{page}", full):
            check_plan(sql, full)


def test_the_list_does_not_fetch_what_it_does_not_show(full, operator):
    for sql in asked(operator, f"{BASE}/task/?status=failed", full):
        for column in ('"args"', '"kwargs"', '"metadata"', "traceback", '"result"'):
            assert column not in sql


def test_a_question_that_takes_too_long_is_answered_with_advice(full, operator, monkeypatch):
    if full != "postgresql":
        pytest.skip("SQLite has no time limit for statements")
    monkeypatch.setattr(timeouts, "STATEMENT_SECONDS", 0.001)
    page = operator.get(f"{BASE}/task/?queue=rare").content.decode()
    assert "took too long" in page
    monkeypatch.undo()
    assert "took too long" not in operator.get(f"{BASE}/task/?queue=rare").content.decode()
    with connections[full].cursor() as cursor:
        cursor.execute("SHOW statement_timeout")
        assert cursor.fetchone()[0] == "0"


def test_a_group_of_failures_is_read_newest_first_or_sorted_from_its_index_alone(full, operator):
    if full != "postgresql":
        pytest.skip("PostgreSQL chooses by statistics")
    _groups, _texts, count, *_others = asked(operator, f"{BASE}/task/?q=error:boom", full)
    with connections[full].cursor() as cursor:
        cursor.execute("EXPLAIN " + count.replace("%", "%%"), [])
        plan = "\n".join(row[0] for row in cursor.fetchall())
    assert "Sort" not in plan or "Index Only Scan using dtr_failures" in plan, plan
