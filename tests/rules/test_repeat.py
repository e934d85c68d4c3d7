"""When a repeating task runs next, in Python and in SQL."""

from __future__ import annotations

import time
from datetime import UTC, datetime, timedelta

import pytest
from django.db import connections
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from django_tasks_retry.rules.names import first_of, short_id, time_of, uuid7
from django_tasks_retry.rules.schedules.timing import next_slot
from django_tasks_retry.taskqueue.engines.postgresql import FINISH_REPEATING
from django_tasks_retry.taskqueue.new_tasks import new_id

NOW = datetime(2026, 7, 1, 12, tzinfo=UTC)
slots = st.datetimes(datetime(2000, 1, 1), datetime(2060, 1, 1), timezones=st.just(UTC))
intervals = st.integers(1, 10 * 366 * 86_400_000).map(lambda ms: ms / 1000) | st.integers(1, 5000).map(
    lambda ms: ms / 1000
)


@pytest.mark.parametrize(
    ("late", "slots_ahead"), [(-5, 1), (0, 1), (59.999999, 1), (60, 2), (60.000001, 2), (119, 2), (3600 * 24, 1441)]
)
def test_the_next_slot_is_the_first_one_in_the_future(late, slots_ahead):
    assert next_slot(NOW, 60, NOW + timedelta(seconds=late)) == NOW + timedelta(seconds=60 * slots_ahead)


@given(slots, intervals, slots)
@example(NOW, 0.1, NOW + timedelta(days=3650))
@example(NOW, 0.333, NOW + timedelta(days=3650, microseconds=1))
def test_it_lies_ahead_in_step_and_at_most_one_interval_away(slot, interval, now):
    step = timedelta(seconds=interval)
    following = next_slot(slot, interval, now)
    assert following > now
    assert (following - slot) % step == timedelta(0)
    assert following - max(now, slot) <= step


def formula() -> str:
    """The lines of finish_repeating.sql that compute the slot, with the clock as a parameter."""
    sql = FINISH_REPEATING.text
    begin = sql.index("SELECT t.slot + interval")
    return sql[begin : sql.index("AS slot", begin)].replace("django_tasks_retry_now()", "%(now)s::timestamptz")


@pytest.mark.parametrize("on", ["postgresql"], indirect=True)
@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(slot=slots, interval=intervals, now=slots)
@example(slot=NOW, interval=0.1, now=NOW + timedelta(seconds=0.3))
@example(slot=NOW, interval=0.7, now=NOW + timedelta(seconds=4.9))
@example(slot=NOW, interval=0.007, now=NOW + timedelta(days=20_000))
def test_the_statement_computes_what_the_rule_says(database, slot, interval, now):
    """PostgreSQL's; on SQLite the rule itself is used."""
    parameters = {"slot": slot, "interval": interval, "now": now}
    with connections[database].cursor() as cursor:
        cursor.execute(
            f"{formula()} FROM (SELECT %(slot)s::timestamptz AS slot, %(interval)s::float8 AS interval) t", parameters
        )
        assert cursor.fetchone()[0] == next_slot(slot, interval, now)


@given(st.integers(0, 2**48 - 2), st.integers(0, 2**74 - 1), st.integers(0, 2**74 - 1))
def test_ids_sort_by_the_time_they_were_made(milliseconds, bits, more):
    early, late = uuid7(milliseconds, bits), uuid7(milliseconds + 1, more)
    assert early < late
    assert str(early) < str(late)
    assert first_of(milliseconds) <= early < first_of(milliseconds + 1) <= late
    assert (early.version, early.variant) == (7, "specified in RFC 4122")
    assert (uuid7(milliseconds, bits) < uuid7(milliseconds, more)) == (bits < more)


def test_ids_rise_within_a_process_even_within_a_millisecond():
    ids = [new_id() for _ in range(20_000)]
    assert ids == sorted(set(ids))
    assert all(made.version == 7 for made in ids)


def test_short_ids_tell_apart_what_one_process_enqueues_at_once():
    assert len({short_id(new_id()) for _ in range(20_000)}) == 20_000


CLOCK = "django_tasks_retry.taskqueue.new_tasks.time.time_ns"
HOUR_NS = 3600 * 10**9


def test_ids_go_on_rising_when_the_clock_is_set_back_a_little(monkeypatch):
    before, real = new_id(), time.time_ns()
    monkeypatch.setattr(CLOCK, lambda: real - 2 * 10**9)
    assert new_id() > before


@pytest.mark.fault("host_clock_far_ahead")
def test_ids_come_back_from_the_future_when_the_clock_does(monkeypatch):
    real = time.time_ns()
    monkeypatch.setattr(CLOCK, lambda: real + 720 * HOUR_NS)
    assert time_of(new_id()).timestamp() > (real + 719 * HOUR_NS) / 10**9
    monkeypatch.setattr(CLOCK, lambda: real)
    assert abs(time_of(new_id()).timestamp() - real / 10**9) < 1
