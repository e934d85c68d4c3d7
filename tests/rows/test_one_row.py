"""A row with any value that the type of a column admits costs itself alone."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from django.db import connections, models

from django_tasks_retry.models import Step, Task
from django_tasks_retry.taskqueue.reading import log_once
from tests.admin.conftest import operator  # noqa: F401 - a fixture
from tests.rows.innocents import Innocents
from tests.rows.plant import PLACES, SOUND, Planter, tables, unguarded
from tests.rows.plant import task as a_task
from tests.rows.values import odd_values

SAMPLE = 13
"""The quick test takes each thirteenth value of a column, from another place on in each column."""


def harm(models: Sequence[type[models.Model]], using: str, client: Any, *, sample: int = 1) -> list[str]:
    """Plant every value, or a sample; return which innocent neighbours got no further."""
    log_once.cache_clear()
    innocents, planted, vendor = Innocents(using, client), 0, connections[using].vendor
    for model in models:
        planter = Planter(model, using)
        for place, field in enumerate(model._meta.concrete_fields):
            odds = odd_values(field, vendor)[place % sample :: sample]
            with unguarded(using):
                planted += sum(planter.plant(field, odd) for odd in odds)
    assert planted
    return innocents.failures()


@pytest.mark.long
@pytest.mark.parametrize("model", tables(), ids=lambda model: model._meta.model_name)
def test_no_value_of_a_column_stops_a_neighbour(model, database, operator):  # noqa: F811
    found = harm([model], database, operator)
    assert not found, "\n".join(found)


def test_no_value_of_a_sample_stops_a_neighbour(database, operator):  # noqa: F811
    found = harm(tables(), database, operator, sample=SAMPLE)
    assert not found, "\n".join(found)


EDGES = ("retry_of_id", "parent_id", "batch", "follows_id", "run_id")


@pytest.mark.long
@pytest.mark.parametrize("place", range(len(PLACES)))
def test_no_circle_of_tasks_stops_a_neighbour(database, operator, place):  # noqa: F811
    """Three that retry, add, follow and wait for each other, in each status."""
    innocents, planter = Innocents(database, operator), Planter(Task, database)
    members = [a_task(planter, place) for _ in range(3)]
    with unguarded(database):
        for each, after in zip(members, members[1:] + members[:1], strict=True):
            for column in EDGES:
                setattr(each, column, after.pk)
            each.waits_for = f"batch:{after.pk}" if each.status == "PENDING" else None
            planter.write(each, {})
            named = {"batch": str(after.pk), "count": 1}
            at = {"attempt": 0, "actor": "queue", "ts": planter.moment}
            planter.write(Step(task_id=each.pk, name="then", kind="batch", result=named, **at), {})
    found = innocents.failures()
    assert not found, "\n".join(found)


@pytest.mark.parametrize("model", tables(), ids=lambda model: model._meta.model_name)
def test_no_column_is_left_out(model, database):
    with connections[database].cursor() as cursor:
        described = connections[database].introspection.get_table_description(cursor, model._meta.db_table)
    assert {column.name for column in described} == {field.column for field in model._meta.concrete_fields}
    assert model in SOUND
