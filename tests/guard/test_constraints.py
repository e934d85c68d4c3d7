"""Each named invariant of the rows, violated once on each database, with the triggers out of the way."""

from __future__ import annotations

import math
from datetime import UTC, datetime, timedelta
from uuid import uuid4

import pytest
from django.db import DataError, IntegrityError, connections, models, transaction
from django.utils import timezone

from django_tasks_retry import guard
from django_tasks_retry.guard.constraints import CHECKS, CREATE, ONE, SHORT
from django_tasks_retry.models import Task, TaskResult
from tests.steps import enqueue

NOW = timezone.now()
TOO_EARLY, TOO_LATE = datetime(1899, 12, 30, tzinfo=UTC), datetime(9100, 1, 2, tzinfo=UTC)
LEASED = {"locked_by": "w", "lock_expires_at": NOW + timedelta(minutes=1)}
RUNNING = {"status": "RUNNING", "attempts": 1, **LEASED}

VIOLATIONS = {
    "dtr_status_known": {"status": "RETRYING"},
    "dtr_running_has_lease": {"status": "RUNNING", "attempts": 1},
    "dtr_finished_has_time": {"status": "CANCELLED"},
    "dtr_attempts_within_budget": {**RUNNING, "attempts": 3, "max_attempts": 2},
    "dtr_pending_has_budget": {"attempts": 2, "max_attempts": 2},
    "dtr_running_spent_an_attempt": {**RUNNING, "attempts": 0},
    "dtr_refunds_within_attempts": {"refunds": 1},
    "dtr_priority_in_range": {"priority": 101},
    "dtr_repeating_has_slot": {"interval": 1},
    "dtr_times_in_range": {"eta": TOO_LATE},
    "dtr_numbers_in_range": {"max_attempts": 1_000_001},
    "dtr_unique_key": {"unique_key": "taken"},
    "dtr_slots": {"schedule_id": "nightly", "slot": NOW},
    "dtr_result_is_final": {"status": "RUNNING"},
    "dtr_result_without_error": {"status": "SUCCESS", "error": {"message": "?"}},
    "dtr_result_times_in_range": {"status": "SUCCESS", "finished_at": TOO_LATE},
}
FURTHER = [
    ("dtr_running_has_lease", LEASED),
    ("dtr_running_has_lease", {"locked_by": "w"}),
    ("dtr_running_has_lease", {"lock_expires_at": NOW}),
    ("dtr_numbers_in_range", {"max_attempts": 0, "status": "CANCELLED", "finished_at": NOW}),
    ("dtr_numbers_in_range", {"timeout": 0}),
    ("dtr_numbers_in_range", {"interval": -1, "slot": NOW}),
    ("dtr_finished_has_time", {"finished_at": NOW}),
    ("dtr_running_spent_an_attempt", {"status": "SUCCESS", "finished_at": NOW}),
    ("dtr_priority_in_range", {"priority": -101}),
    *(
        ("dtr_times_in_range", {column: moment})
        for column in ("eta", "created_at", "updated_at", "slot", "started_at", "last_attempt_at")
        for moment in (TOO_EARLY, TOO_LATE)
    ),
    ("dtr_times_in_range", {**RUNNING, "lock_expires_at": TOO_LATE}),
    ("dtr_times_in_range", {"status": "CANCELLED", "finished_at": TOO_LATE}),
    ("dtr_result_times_in_range", {"status": "SUCCESS", "last_attempt_at": TOO_EARLY}),
    *(
        ("dtr_numbers_in_range", {**change, "slot": NOW})
        for change in ({"timeout": math.inf}, {"interval": math.inf}, {"interval": 1e-9}, {"timeout": 1e10})
    ),
]


TASK = Task._meta.db_table


def constraints(model) -> dict[str, models.BaseConstraint]:
    return {constraint.name: constraint for constraint in model._meta.constraints}


def test_every_constraint_is_violated_here():
    assert set(VIOLATIONS) == set(constraints(Task)) | set(constraints(TaskResult))


@pytest.fixture
def unguarded(database):
    """The tables without their triggers, until the transaction of the test is rolled back."""
    with connections[database].cursor() as cursor:
        if connections[database].vendor == "sqlite":
            for name in guard.sqlite_statements():
                cursor.execute(f"DROP TRIGGER {name}")
        else:
            for model in (Task, TaskResult):
                cursor.execute(f"ALTER TABLE {model._meta.db_table} DISABLE TRIGGER USER")
    return database


def insert(name, changes):
    if name in constraints(TaskResult):
        return TaskResult.objects.create(**{"task_id": uuid4(), "attempts": 1, "finished_at": NOW} | changes)
    unique = {"id": uuid4(), "run_id": uuid4(), "func_path": "f", "queue": "default", "eta": NOW, "max_attempts": 5}
    return Task.objects.create(**unique | {"timeout": 1, "created_at": NOW, "updated_at": NOW} | changes)


@pytest.mark.parametrize(("name", "changes"), [*VIOLATIONS.items(), *FURTHER])
def test_a_violation_is_refused_by_name(unguarded, name, changes):
    enqueue(unique_key="taken")
    if name == "dtr_slots":
        insert(name, changes)
    with pytest.raises((IntegrityError, DataError)) as refusal, transaction.atomic(using=unguarded):
        insert(name, changes)
    assert words_of(name, unguarded) in str(refusal.value)


def words_of(name, using):
    # SQLite names the columns of a unique index.
    return {"dtr_unique_key": "unique_key", "dtr_slots": "slot"}.get(name, name)


@pytest.mark.parametrize("on", ["postgresql"], indirect=True)
def test_the_table_of_tasks_has_one_check_whatever_its_model_says(database):
    """Each is read anew for every statement."""
    with connections[database].cursor() as cursor:
        cursor.execute("SELECT conname FROM pg_constraint WHERE contype = 'c' AND conrelid = %s::regclass", [TASK])
        assert cursor.fetchall() == [(ONE,)]
    on_tasks = {name for name, each in constraints(Task).items() if isinstance(each, models.CheckConstraint)}
    assert set(CHECKS) == on_tasks | {f"{TASK}_crashes_check"}


@pytest.mark.parametrize("on", ["postgresql"], indirect=True)
@pytest.mark.parametrize("name", [name for name in VIOLATIONS if name in CHECKS])
def test_a_violation_is_refused_even_to_who_replicates(database, name):
    """Triggers are not fired then."""
    with connections[database].cursor() as cursor:
        cursor.execute("SET LOCAL session_replication_role = replica")
    with pytest.raises(IntegrityError, match=name), transaction.atomic(using=database):
        insert(name, VIOLATIONS[name])


@pytest.mark.parametrize("on", ["postgresql"], indirect=True)
def test_operators_of_a_session_do_not_loosen_the_check(unguarded):
    with connections[unguarded].cursor() as cursor:
        cursor.execute("CREATE SCHEMA odd")
        cursor.execute("CREATE FUNCTION odd.yes(int, int) RETURNS boolean LANGUAGE sql AS 'SELECT TRUE'")
        for operator in ("<", "<=", ">=", "="):
            cursor.execute(f"CREATE OPERATOR odd.{operator} (FUNCTION = odd.yes, LEFTARG = int, RIGHTARG = int)")
        cursor.execute("SET LOCAL search_path = odd, pg_catalog, public")
    with pytest.raises(IntegrityError, match="dtr_refunds_within_attempts"), transaction.atomic(using=unguarded):
        insert("", VIOLATIONS["dtr_refunds_within_attempts"])


@pytest.mark.parametrize("on", ["postgresql"], indirect=True)
def test_a_check_that_was_loosened_is_missed_and_put_back(database):
    with connections[database].cursor() as cursor:
        cursor.execute(CREATE.replace("IS NOT FALSE", "IS NOT NULL"))
    assert guard.missing(database) == {ONE}
    guard.install_after_migrate(database)
    assert guard.missing(database) == set()
    with pytest.raises(IntegrityError), transaction.atomic(using=database):
        insert("", VIOLATIONS["dtr_priority_in_range"])


@pytest.mark.parametrize(("name", "healthy"), [("dtr_unique_key", {}), ("dtr_result_is_final", {"status": "SUCCESS"})])
def test_the_same_row_without_a_violation_is_accepted(unguarded, name, healthy):
    """So that no refusal above has another reason than its violation."""
    assert insert(name, healthy).pk


IN_FEWER_WORDS = SHORT | {(TASK, name): check for name, check in CHECKS.items() if name in VIOLATIONS}
MOMENTS = "(NULL), ('1899-12-30'), ('1900-01-01 00:00+00'), ('2026-01-01'), ('9100-01-01 00:00+00'), ('infinity')"
SOME_MOMENTS = "(NULL), ('-infinity'), ('2026-01-01'), ('9100-01-02')"
FLOATS = "(-1), (0), (1e-9), (0.001), (1), (1e9), (1e10), ('NaN'), ('Infinity')"
GRID = {
    "status": "('PENDING'), ('RUNNING'), ('SUCCESS'), ('FAILED'), ('CANCELLED'), ('RETRYING')",
    "locked_by": "(NULL), ('w')",
    "attempts": "(-1), (0), (1), (2)",
    "max_attempts": "(-1), (0), (1), (1000000), (1000001)",
    "refunds": "(-1), (0), (1), (2)",
    "priority": "(-101), (-100), (0), (100), (101)",
    "timeout": FLOATS,
    "interval": FLOATS,
}
TYPES = {"status": "varchar", "locked_by": "varchar", **dict.fromkeys(("attempts", "max_attempts", "refunds"), "int")}
TYPES |= {"priority": "int", "timeout": "float8", "interval": "float8"}


@pytest.mark.parametrize("on", ["postgresql"], indirect=True)
@pytest.mark.parametrize(("table", "name"), IN_FEWER_WORDS)
def test_the_short_check_says_what_the_model_says(database, table, name):
    """For every combination of values, those that no row may have included."""
    model = {each._meta.db_table: each for each in (Task, TaskResult)}[table]
    with connections[database].schema_editor(collect_sql=True) as editor:
        long = constraints(model)[name]._get_check_sql(model, editor)
    columns = [field.column for field in model._meta.concrete_fields if f'"{field.column}"' in long]
    values = {column: GRID.get(column, SOME_MOMENTS if len(columns) > 4 else MOMENTS) for column in columns}
    rows = " CROSS JOIN ".join(f'(VALUES {values[each]}) AS v_{each} ("{each}")' for each in columns)
    typed = ", ".join(f'"{each}"::{TYPES.get(each, "timestamptz")} AS "{each}"' for each in columns)
    both = f"({long}) IS FALSE AS refuses, ({IN_FEWER_WORDS[table, name]}) IS FALSE AS refuses_shortly"
    with connections[database].cursor() as cursor:
        cursor.execute(
            "SELECT count(*), count(*) FILTER (WHERE refuses), count(*) FILTER (WHERE refuses <> refuses_shortly) "
            f"FROM (SELECT {both} FROM (SELECT {typed} FROM {rows}) AS row) AS compared"
        )
        tried, refused, unlike = cursor.fetchone()
    assert 0 < refused < tried
    assert unlike == 0
