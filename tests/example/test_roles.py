"""A real worker serves as a login that has no more than the worker's role, and enqueuing needs only the producer's."""

from __future__ import annotations

import secrets
from urllib.parse import urlsplit

import psycopg
import pytest

from tests.example.programs import manage

ENQUEUE = "from example_project.shop.tasks import tell_warehouse as t; print([t.enqueue(n).id for n in range(3)])"
LOGINS = ("producer", "worker")


@pytest.fixture
def logins(empty_postgresql):
    """URLs of the example's database for logins that belong to one role each."""
    assert manage("migrate", DATABASE_URL=empty_postgresql).returncode == 0
    prefix, place = f"r{secrets.token_hex(4)}", urlsplit(empty_postgresql)
    with psycopg.connect(empty_postgresql, autocommit=True) as owner:
        owner.execute(manage("tasksql", "roles", "--prefix", prefix).stdout)
        for role in LOGINS:
            owner.execute(f"CREATE ROLE {prefix}_{role}_login LOGIN PASSWORD 'x' IN ROLE {prefix}_{role}")
        yield {role: f"postgres://{prefix}_{role}_login:x@{place.hostname}:{place.port}{place.path}" for role in LOGINS}
        for role in [*(f"{role}_login" for role in LOGINS), "producer", "worker", "operator"]:
            owner.execute(f"DROP OWNED BY {prefix}_{role}")
            owner.execute(f"DROP ROLE {prefix}_{role}")


def test_a_worker_with_the_least_privileges_drains_the_queue(logins, empty_postgresql):
    enqueued = manage("shell", "-c", ENQUEUE, DATABASE_URL=logins["producer"])
    assert enqueued.returncode == 0, enqueued.stderr
    worked = manage("runworker", "--drain", DATABASE_URL=logins["worker"])
    assert worked.returncode == 0, worked.stderr
    assert "3 done" in worked.stderr
    with psycopg.connect(empty_postgresql) as owner:
        assert owner.execute("SELECT DISTINCT status FROM django_tasks_retry_task").fetchall() == [("SUCCESS",)]
