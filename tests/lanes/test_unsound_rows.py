"""A row of a lane that cannot be used costs that lane alone: neighbours start, breakers turn, and the log names it."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.db import IntegrityError, connections, transaction

from django_tasks_retry import clock, taskqueue
from django_tasks_retry.models import FlowLimit
from django_tasks_retry.taskqueue import ClaimMemory, Stat, tick_breakers
from django_tasks_retry.taskqueue.lanes import create_limits, forget_idle
from django_tasks_retry.taskqueue.reading import log_once
from tests import tasks
from tests.cli.conftest import tasks_command
from tests.lanes.test_limits import with_lanes

TABLE = FlowLimit._meta.db_table
RATE = {"starts": "5", "per": "60"}
DEEP = "[" * 5000 + "]" * 5000

REFUSED = {
    "no running": {"running": "0"},
    "too many running": {"running": "3000000"},
    "no starts": {"starts": "0", "per": "1"},
    "no window": {"starts": "1", "per": "0"},
    "negative window": {"starts": "1", "per": "-1"},
    "endless window": {"starts": "1", "per": "Infinity"},
    "window is no number": {"starts": "1", "per": "NaN"},
    "no weight": {"weight": "0"},
    "negative weight": {"weight": "-1"},
    "endless weight": {"weight": "Infinity"},
    "weight is no number": {"weight": "NaN"},
}
"""Values of columns with a CHECK."""

ODD_STARTS = {
    "text": '"x"',
    "null": "null",
    "number": "5",
    "objects": '[{"a": 1}]',
    "no pairs": "[[1]]",
    "negative count": "[[1, -1]]",
    "endless instant": "[[1e400, 1]]",
    "endless count": "[[1, 1e400]]",
    "texts": '[["x", 1]]',
    "deep": DEEP,
    "long": f"[[1, {'9' * 5000}]]",
}
ACCEPTED = {f"starts: {name}": {**RATE, "recent": text} for name, text in ODD_STARTS.items()}
"""Values that only a reader can tell from sound ones."""

TIMES = ("created_at", "paused_at", "probe_at", "probing_since", "counts_from")


def write(using: str, label: str, **columns: str) -> None:
    create_limits([label], using)
    name = label.partition(":")[2] or label
    with connections[using].cursor() as cursor:
        for column, text in columns.items():
            stored = text if using == "postgresql" else text.replace("Infinity", "9e999")
            cursor.execute(f'UPDATE {TABLE} SET "{column}" = %s WHERE name = %s', [stored, name])


def lift_checks(using: str) -> None:
    """Inside the test's own transaction, which brings them back."""
    with connections[using].cursor() as cursor:
        if using != "postgresql":
            cursor.execute("PRAGMA ignore_check_constraints = 1")
            cursor.execute("SELECT name FROM sqlite_master WHERE type = 'trigger' AND tbl_name = %s", [TABLE])
            for (name,) in cursor.fetchall():
                cursor.execute(f'DROP TRIGGER "{name}"')
            return
        cursor.execute("SELECT conname FROM pg_constraint WHERE contype = 'c' AND conrelid = %s::regclass", [TABLE])
        for (name,) in cursor.fetchall():
            cursor.execute(f'ALTER TABLE {TABLE} DROP CONSTRAINT "{name}"')


@pytest.fixture
def unchecked(database):
    log_once.cache_clear()
    lift_checks(database)
    yield database
    if database != "postgresql":
        with connections[database].cursor() as cursor:
            cursor.execute("PRAGMA ignore_check_constraints = 0")


def named(caplog: Any, label: str) -> list[str]:
    return [record.getMessage() for record in caplog.records if repr(label) in record.getMessage()]


@pytest.mark.parametrize("columns", [*REFUSED.values(), *ACCEPTED.values()], ids=[*REFUSED, *ACCEPTED])
def test_neighbours_of_an_unsound_lane_start_and_the_log_names_it_once(unchecked, columns, claim, enqueue, caplog):
    enqueue(tasks.sync, 1, 1)
    enqueue(tasks.sync, 1, 2)
    enqueue(tasks.noop, 1)
    write(unchecked, "tenant-1", **columns)
    assert sorted(lease.lane for lease in claim()) == ["", "tenant-2"]
    assert claim() == []
    [message] = named(caplog, "tenant-1")
    assert "manage.py tasks limit" in message


@pytest.mark.parametrize("label", ["queue:default", "function:tests.tasks.noop"])
def test_an_unsound_queue_or_function_is_set_aside_alone(unchecked, label, claim, enqueue, caplog):
    enqueue(tasks.noop)
    enqueue(tasks.add, 1, 1, 2, queue="emails")
    write(unchecked, label, running="0")
    assert [lease.func_path for lease in claim()] == ["tests.tasks.add"]
    assert len(named(caplog, label)) == 1


@pytest.mark.parametrize("column", TIMES)
def test_a_row_with_a_time_that_python_cannot_hold_is_set_aside_alone(unchecked, column, claim, enqueue, caplog):
    enqueue(tasks.sync, 1, 1)
    enqueue(tasks.sync, 1, 2)
    enqueue(tasks.noop, 1)
    write(
        unchecked,
        "tenant-1",
        **{column: "20000-01-01 00:00:00" if unchecked == "postgresql" else "2026-99-99 00:00:00"},
    )
    assert sorted(lease.lane for lease in claim()) == ["", "tenant-2"]
    assert len(named(caplog, "tenant-1")) == (0 if column == "paused_at" else 1), "what is paused is not claimed from"


@pytest.mark.parametrize("columns", [*REFUSED.values(), *ACCEPTED.values()], ids=[*REFUSED, *ACCEPTED])
def test_clearing_its_limits_lets_a_lane_go_on(unchecked, columns, claim, enqueue):
    enqueue(tasks.sync, 1, 1)
    write(unchecked, "tenant-1", **columns)
    assert tasks_command("limit", "tenant-1", "--clear", "--reason", "odd").code == 0
    assert len(claim()) == 1


def test_starts_that_cannot_be_read_fill_one_window(unchecked, claim, enqueue, settings):
    settings.TASKS = with_lanes(settings.TASKS, {"tenant-*": {"rate": (5, 60)}})
    enqueue(tasks.sync, 1, 1)
    write(unchecked, "tenant-1", recent='"x"')
    taskqueue.limit_lane("tenant-1")
    assert claim() == []
    clock.shift(timedelta(seconds=61), unchecked)
    assert len(claim()) == 1


@pytest.mark.parametrize("columns", [*REFUSED.values(), *ACCEPTED.values()], ids=[*REFUSED, *ACCEPTED])
def test_operators_see_an_unsound_lane_beside_its_neighbours(unchecked, columns, enqueue, why):
    [task] = enqueue(tasks.sync, 1, 1)
    create_limits(["tenant-2"], unchecked)
    write(unchecked, "tenant-1", **columns)
    shown = tasks_command("lanes").out
    assert "cannot be read" in shown
    assert "tenant-2" in shown
    assert "cannot be read" in why(task)


def test_who_drains_does_not_wait_for_an_unsound_lane(unchecked, enqueue):
    enqueue(tasks.sync, 1, 1)
    assert taskqueue.is_work_left(ClaimMemory())
    write(unchecked, "tenant-1", **RATE, recent='"x"')
    assert not taskqueue.is_work_left(ClaimMemory())


def test_rows_with_unreadable_starts_are_kept_and_others_forgotten(unchecked):
    create_limits(["odd", "idle"], unchecked)
    write(unchecked, "odd", recent=DEEP)
    clock.shift(timedelta(days=40), unchecked)
    assert forget_idle() == 1
    assert [state.name for state in FlowLimit.objects.only("name")] == ["odd"]


ODD_OUTCOMES = ['"x"', "5", "[1]", '["a", "b"]', '{"a": 1}', "[1, 2, 3]", DEEP]


@pytest.mark.parametrize("text", ODD_OUTCOMES, ids=lambda text: text[:10])
def test_a_probe_that_cannot_be_judged_costs_no_other_breaker(unchecked, text, settings, caplog):
    settings.TASKS = with_lanes(settings.TASKS, {"tenant-*": {"failure_threshold": 0.5}})
    moment = str(clock.now(unchecked).replace(tzinfo=None))
    write(unchecked, "tenant-1", probing_since=moment, probe_from=text)
    taskqueue.add_stats([Stat("default", "f", failed=30, lane="tenant-2")])
    assert tick_breakers() == 1
    tick_breakers()
    assert FlowLimit.objects.only("paused_at").get(name="tenant-2").paused_at
    assert len(named(caplog, "tenant-1")) == 1


REFUSALS = {
    **REFUSED,
    "unknown kind": {"kind": "odd"},
    **{f"{column} too late": {column: "9999-01-01 00:00:00"} for column in TIMES},
    "paused queue": {"kind": "queue", "paused_at": "2026-01-01 00:00:00"},
    "tripped queue": {"kind": "queue", "probe_at": "2026-01-01 00:00:00"},
    "probed queue": {"kind": "queue", "probing_since": "2026-01-01 00:00:00"},
}


@pytest.mark.parametrize("columns", REFUSALS.values(), ids=REFUSALS)
def test_the_database_refuses_an_unsound_row(database, columns):
    with pytest.raises(IntegrityError, match=r"dtr_lane_|another type"), transaction.atomic(using=database):
        write(database, "tenant-1", **columns)
