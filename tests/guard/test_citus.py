"""Citus, sharded by schema: where the extension is there, as on a server of DATABASE_URL that preloads it."""

import pytest
from django.core.management import call_command
from django.db import connections

from django_tasks_retry import checks, guard
from django_tasks_retry.guard.abilities import NOT_ON_CITUS, abilities_of_tables
from django_tasks_retry.rules.status import FINISHED
from tests.guard.test_abilities import forget
from tests.steps import task_in

IS_THERE = "SELECT 1 FROM pg_available_extensions WHERE name = 'citus'"
SCHEMA = (
    "CREATE EXTENSION IF NOT EXISTS citus",
    "SET citus.enable_schema_based_sharding TO on",
    "CREATE SCHEMA sharded",
    "SET search_path TO sharded, pg_catalog",
)
NO_SCHEMA = ("SET search_path TO DEFAULT", "DROP SCHEMA IF EXISTS sharded CASCADE", "DROP EXTENSION citus CASCADE")


@pytest.fixture
def sharded(committed):
    with connections[committed].cursor() as cursor:
        cursor.execute(IS_THERE)
        if cursor.fetchone() is None:
            pytest.skip("this server has no extension citus")
        try:
            for sql in SCHEMA:
                cursor.execute(sql)
            forget()
            call_command("migrate", "django_tasks_retry", database=committed, verbosity=0)
            yield committed
        finally:
            for sql in NO_SCHEMA:
                cursor.execute(sql)
            forget()


@pytest.mark.long
@pytest.mark.parametrize("on", ["postgresql"], indirect=True)
def test_a_schema_of_citus_holds_the_queue(sharded):
    assert not any(getattr(abilities_of_tables(sharded), ability) for ability in NOT_ON_CITUS)
    assert guard.missing(sharded) == set()
    assert [each.id for each in checks.check_databases(databases=[sharded])] == ["django_tasks_retry.W015"]
    for status in FINISHED:
        assert task_in(status)[0].status == status
