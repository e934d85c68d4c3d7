"""The guard in the database: installed by `migrate`, and missed wherever it is not whole."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from django.core.management import call_command
from django.db import IntegrityError, connections, models, transaction

from django_tasks_retry import checks, clock, guard, taskqueue
from django_tasks_retry.errors import GuardMissing
from django_tasks_retry.guard.abilities import ALL, PLAIN
from django_tasks_retry.guard.constraints import REASON, declared
from django_tasks_retry.models import FlowLimit, Task
from django_tasks_retry.rules.status import Status
from tests import tasks
from tests.conftest import PLAIN as IS_PLAIN
from tests.rows.plant import Planter, unguarded
from tests.rows.plant import task as unsound_task
from tests.rows.values import Odd

on_postgresql = pytest.mark.parametrize("on", ["postgresql"], indirect=True)
MOST_INDEXES = 19
ABILITIES = PLAIN if IS_PLAIN else ALL
NAMES = {
    "sqlite": sorted(guard.sqlite_statements()),
    "postgresql": sorted(guard.postgresql_triggers(ABILITIES)),
}


def execute(using, *statements):
    with connections[using].cursor() as cursor:
        for statement in statements:
            cursor.execute(statement)


def table_of(trigger):
    return guard.postgresql_triggers()[trigger][0]


def drop(using, trigger):
    on = f" ON {table_of(trigger)}" if connections[using].vendor == "postgresql" else ""
    execute(using, f"DROP TRIGGER {trigger}{on}")


def is_missed(using, *triggers):
    """By the question, by the system check and by whoever refuses to start without it."""
    assert guard.missing(using) == set(triggers)
    [error] = checks.check_databases(databases=[using])
    assert error.id == "django_tasks_retry.E001"
    with pytest.raises(GuardMissing) as refusal:
        guard.ensure(using)
    for trigger in triggers:
        assert trigger in error.msg
        assert trigger in str(refusal.value)
    assert "manage.py migrate" in str(refusal.value)


def is_whole(using):
    assert guard.missing(using) == set()
    assert [each.id for each in checks.check_databases(databases=[using])] == told_of(using)
    guard.ensure(using)


def told_of(using):
    return ["django_tasks_retry.W015"] if IS_PLAIN and using == "postgresql" else []


def test_migrate_installs_the_guard(database):
    is_whole(database)


def test_installing_twice_changes_nothing(database):
    before = definitions(database)
    guard.install(database)
    guard.install_after_migrate(database)
    assert definitions(database) == before
    is_whole(database)


def definitions(using):
    with connections[using].cursor() as cursor:
        if connections[using].vendor == "sqlite":
            cursor.execute("SELECT name, sql FROM sqlite_master WHERE type = 'trigger' ORDER BY name")
        else:
            cursor.execute("SELECT oid, tgname FROM pg_trigger WHERE tgname LIKE 'dtr_%' ORDER BY oid")
        return cursor.fetchall()


@pytest.mark.plain_layout
def test_each_dropped_trigger_is_missed_and_put_back(database):
    for trigger in NAMES[connections[database].vendor]:
        drop(database, trigger)
        is_missed(database, trigger)
        guard.install_after_migrate(database)
        is_whole(database)


@on_postgresql
@pytest.mark.plain_layout
def test_each_dropped_check_is_missed_and_put_back(database):
    before = checks_of(database)
    checks = declared(connections[database].vendor)
    assert len(checks) > 10
    for table, name in checks:
        execute(database, f"ALTER TABLE {table} DROP CONSTRAINT {name}")
        is_missed(database, name)
        guard.install_after_migrate(database)
        is_whole(database)
    assert checks_of(database) == before


def checks_of(using):
    with connections[using].cursor() as cursor:
        cursor.execute(
            "SELECT conname, replace(pg_get_constraintdef(oid), ' NOT VALID', '') FROM pg_constraint "
            "WHERE conname LIKE 'dtr_%' AND contype = 'c' ORDER BY conname"
        )
        return cursor.fetchall()


@on_postgresql
def test_a_check_comes_back_beside_a_row_that_breaks_it(database):
    """Which must not keep `migrate` from ending."""
    table = "django_tasks_retry_lanestate"
    execute(database, f"ALTER TABLE {table} DROP CONSTRAINT dtr_lane_weight_in_range")
    FlowLimit.objects.create(name="odd", weight=-1, created_at=clock.now(database))
    guard.install_after_migrate(database)
    is_whole(database)
    with pytest.raises(IntegrityError), transaction.atomic(using=database):
        FlowLimit.objects.create(name="odder", weight=-1, created_at=clock.now(database))


ODD = {"timeout": -1.0, "interval": -1.0, "priority": 500, "eta": "0001-01-01 00:00:00+00", "max_attempts": 0}
"""Column of a task, and a value that breaks its check."""


@on_postgresql
@pytest.mark.plain_layout
@pytest.mark.parametrize("place", [0, 1])
@pytest.mark.parametrize("column", ODD)
def test_tasks_that_break_a_restored_check_are_cancelled_and_stop_nobody(database, caplog, column, place):
    """Every statement that moves them would fail, and with it the moves of all others in it."""
    planter = Planter(Task, database)
    execute(database, f"ALTER TABLE {Task._meta.db_table} DROP CONSTRAINT dtr_task_is_sound")
    odd = unsound_task(planter, place)
    with unguarded(database):
        planter.write(odd, {column: Odd("breaks its check", ODD[column])})
    guard.install_after_migrate(database)
    is_whole(database)
    assert f"task {odd.pk} was cancelled" in caplog.text
    sound = Task.objects.enqueue(tasks.noop)
    assert [lease.id for lease in taskqueue.claim("w", limit=5)] == [sound.pk]
    assert Task.objects.values_list("status", flat=True).get(pk=odd.pk) == "CANCELLED"
    assert odd.outcome.status == "CANCELLED"
    assert odd.events.get().data == {"reason": REASON}


@pytest.mark.parametrize("on", ["sqlite"], indirect=True)
def test_a_dropped_check_is_put_back_by_remaking_the_table(committed, monkeypatch):
    """On SQLite a constraint is a part of its table."""
    [check] = [check for (_, name), (_, check) in declared("sqlite").items() if name == "dtr_running_has_lease"]
    task = Task.objects.enqueue(tasks.noop)
    connection = connections[committed]
    guard.remove_before_migrate(committed, [(SimpleNamespace(app_label="django_tasks_retry"), False)])
    without = [each for each in Task._meta.constraints if each.name != check.name]
    with monkeypatch.context() as patch, connection.schema_editor() as editor:
        patch.setattr(Task._meta, "constraints", without)
        editor._remake_table(Task)
    assert "dtr_running_has_lease" in guard.missing(committed)
    guard.install_after_migrate(committed)
    is_whole(committed)
    assert Task.objects.get() == task
    assert {index.name for index in Task._meta.indexes} <= indexes_of(committed)


def indexes_of(using):
    with connections[using].cursor() as cursor:
        cursor.execute("SELECT name FROM sqlite_master WHERE type = 'index'")
        return {name for (name,) in cursor.fetchall()}


def test_the_table_of_tasks_has_few_indexes(database):
    """PostgreSQL opens, locks and prepares each of them for every statement. Merge some before you add one."""
    with connections[database].cursor() as cursor:
        found = connections[database].introspection.get_constraints(cursor, Task._meta.db_table)
    assert sum(bool(each["index"] or each["unique"]) for each in found.values()) <= MOST_INDEXES


def test_a_disabled_trigger_is_missed(database):
    if connections[database].vendor == "sqlite":  # where triggers cannot be disabled, only dropped
        drop(database, "dtr_guard_move")
    else:
        execute(database, "ALTER TABLE django_tasks_retry_task DISABLE TRIGGER dtr_guard_move")
    is_missed(database, "dtr_guard_move")
    guard.install(database)
    is_whole(database)


def test_an_altered_trigger_is_missed(database):
    drop(database, "dtr_guard_move")
    if connections[database].vendor == "sqlite":
        execute(database, "CREATE TRIGGER dtr_guard_move BEFORE UPDATE ON django_tasks_retry_task BEGIN SELECT 1; END")
    else:
        execute(
            database,
            "CREATE TRIGGER dtr_guard_move BEFORE UPDATE ON django_tasks_retry_task FOR EACH ROW "
            "WHEN (NEW.attempts > 1000) EXECUTE FUNCTION dtr_guard_move()",
        )
    is_missed(database, "dtr_guard_move")
    guard.install(database)
    is_whole(database)


@on_postgresql
def test_a_trigger_that_was_replaced_in_place_is_missed(database):
    """Which keeps its comment. SQLite has no such statement."""
    execute(
        database,
        "CREATE OR REPLACE TRIGGER dtr_guard_move BEFORE UPDATE ON django_tasks_retry_task FOR EACH ROW "
        "WHEN (NEW.attempts > 1000) EXECUTE FUNCTION dtr_guard_move()",
    )
    is_missed(database, "dtr_guard_move")


@on_postgresql
def test_a_hollowed_function_is_missed(database):
    """The trigger stands, but what it calls lets everything pass. SQLite's triggers call no functions."""
    hollow = "CREATE OR REPLACE FUNCTION dtr_guard_move() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NEW; END'"
    execute(database, hollow)
    is_missed(database, "dtr_guard_move")
    guard.install(database)
    is_whole(database)


@pytest.mark.plain_layout
@on_postgresql
def test_a_trigger_of_the_same_name_on_another_table_does_not_count(database):
    drop(database, "dtr_guard_event")
    execute(
        database,
        "CREATE TRIGGER dtr_guard_event BEFORE UPDATE ON django_tasks_retry_queue FOR EACH ROW "
        "EXECUTE FUNCTION dtr_guard_append_only()",
    )
    seal_all(database)
    is_missed(database, "dtr_guard_event")


def seal_all(using):
    with connections[using].cursor() as cursor:
        for table, name, seal, _ in guard.postgresql_seals(cursor, ABILITIES):
            cursor.execute(f"COMMENT ON TRIGGER {name} ON {table} IS '{seal}'")


def remake(using):
    """Alter a field, as a migration does: SQLite makes the table anew and forgets its triggers."""
    old, new = Task._meta.get_field("queue"), models.CharField(max_length=65)
    new.set_attributes_from_name("queue")
    new.model = Task
    with connections[using].schema_editor() as editor:
        editor.alter_field(Task, old, new)
    with connections[using].schema_editor() as editor:
        editor.alter_field(Task, new, old)


def test_a_remade_table_gets_its_guard_back_after_migrate(committed):
    remake(committed)
    if connections[committed].vendor == "sqlite":
        assert "dtr_guard_move" in guard.missing(committed)
    call_command("migrate", database=committed, verbosity=0)
    is_whole(committed)


def test_the_guard_names_the_rule_that_was_broken(database):
    from tests.steps import task_in

    task, _ = task_in(Status.SUCCESS)
    with pytest.raises(Exception, match="IllegalMove: a finished task never changes"), transaction.atomic(database):
        Task.objects.filter(pk=task.pk).update(priority=1)
