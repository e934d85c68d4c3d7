"""When a schedule runs, against an oracle that walks the minutes of UTC."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from django_tasks_retry.errors import InvalidSchedule
from django_tasks_retry.rules.schedules.timing import Missed, Timing, check_timing, decide

NOW = datetime(2026, 7, 1, 12, tzinfo=UTC)
ZONES = ["Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "Asia/Kathmandu", "UTC"]
MINUTE, HORIZON = timedelta(minutes=1), timedelta(days=3)


def utc(text: str) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


class Oracle:
    """By brute force: what each minute of UTC looks like on the wall, and whether cron would run in it."""

    def __init__(self, minutes, hours, weekdays, zone):
        self.minutes, self.hours, self.weekdays, self.zone = minutes, hours, weekdays, ZoneInfo(zone)
        self.is_fixed = not minutes.startswith("*") and not hours.startswith("*")

    @property
    def cron(self):
        return f"{self.minutes} {self.hours} * * {self.weekdays}"

    def matches(self, wall):
        return (
            wall.minute in values(self.minutes, 60)
            and wall.hour in values(self.hours, 24)
            and (wall.weekday() + 1) % 7 in values(self.weekdays, 7)
        )

    def runs_at(self, moment):
        wall, before = moment.astimezone(self.zone), (moment - MINUTE).astimezone(self.zone)
        if not self.is_fixed:
            return self.matches(wall)
        if wall.fold:
            return False
        # The first minute after a gap stands for all that the gap swallowed.
        first = before.replace(tzinfo=None, fold=0) + MINUTE
        swallowed = (wall.replace(tzinfo=None) - first) // MINUTE
        walls = [first + n * MINUTE for n in range(swallowed + 1)] if 0 < swallowed <= 120 else [wall]
        return any(self.matches(each) for each in walls)

    def after(self, moment):
        minute = moment.replace(second=0, microsecond=0) + MINUTE
        while minute <= moment + HORIZON:
            if self.runs_at(minute):
                return minute
            minute += MINUTE
        return None

    def latest(self, first, now):
        minute = now.replace(second=0, microsecond=0)
        while minute > first:
            if self.runs_at(minute):
                return minute
            minute -= MINUTE
        return first


def values(field, size):
    if field.startswith("*"):
        return range(0, size, int(field[2:] or 1))
    return [int(value) for value in field.split(",")]


def field(size):
    listed = st.lists(st.integers(0, size - 1), min_size=1, max_size=3, unique=True)
    return listed.map(lambda chosen: ",".join(map(str, chosen))) | st.sampled_from(["*", "*/2", "*/7", "*/15"])


CHANGES = [
    utc("2026-03-29T01:00"), utc("2026-10-25T01:00"),  # Berlin
    utc("2026-03-08T07:00"), utc("2026-11-01T06:00"),  # New York
    utc("2026-04-04T15:00"), utc("2026-10-03T15:30"),  # Lord Howe, by half an hour
]  # fmt: skip
near_a_change = st.builds(
    lambda change, seconds: change + timedelta(seconds=seconds), st.sampled_from(CHANGES), st.integers(-90000, 90000)
)
starts = near_a_change | st.datetimes(datetime(2026, 1, 1), datetime(2027, 1, 1), timezones=st.just(UTC))
early_hours = st.sampled_from(["1", "2", "3", "1,2", "2,3", "1,2,3", "*", "*/2"])
oracles = st.builds(Oracle, field(60), early_hours | field(24), st.just("*") | field(7), st.sampled_from(ZONES))


@settings(max_examples=250, deadline=None)
@given(oracles, starts)
@example(Oracle("45", "2", "*", "Europe/Berlin"), utc("2026-10-25T01:30"))  # in the second of two hours
@example(Oracle("*/7", "2", "*", "Australia/Lord_Howe"), utc("2026-04-04T14:40"))
def test_the_next_slot_is_what_a_walk_through_the_minutes_finds(oracle, moment):
    timing = Timing(cron=oracle.cron, timezone=oracle.zone.key)
    found, expected = timing.after(moment), oracle.after(moment)
    assert found == expected or (expected is None and found > moment + HORIZON)


@settings(max_examples=150, deadline=None)
@given(oracles, starts, st.integers(0, 3 * 86400))
def test_the_latest_slot_is_what_a_walk_back_finds(oracle, moment, seconds):
    timing = Timing(cron=oracle.cron, timezone=oracle.zone.key)
    first = timing.after(moment)
    now = first + timedelta(seconds=seconds)
    assert timing.latest(first, now) == oracle.latest(first, now)


@pytest.mark.fault("schedules_in_daylight_saving")
@pytest.mark.parametrize(
    ("cron", "zone", "slots"),
    [
        # In spring 02:30 does not exist: right after the gap. In autumn it comes twice: the first time.
        ("30 2 * * *", "Europe/Berlin", ["2026-03-28T01:30", "2026-03-29T01:00", "2026-03-30T00:30"]),
        ("30 2 * * *", "Europe/Berlin", ["2026-10-24T00:30", "2026-10-25T00:30", "2026-10-26T01:30"]),
        ("15 2 * * *", "Australia/Lord_Howe", ["2026-10-02T15:45", "2026-10-03T15:30", "2026-10-04T15:15"]),
        ("0 * * * *", "Europe/Berlin", ["2026-10-25T00:00", "2026-10-25T01:00", "2026-10-25T02:00"]),
        ("@daily", "Asia/Kathmandu", ["2026-10-24T18:15", "2026-10-25T18:15"]),
    ],
)
def test_slots_where_the_clocks_change(cron, zone, slots):
    expected = [utc(slot) for slot in slots]
    assert Timing(cron=cron, timezone=zone).upcoming(expected[0] - MINUTE, len(expected)) == expected


@pytest.mark.parametrize(
    ("cron", "meant"),
    [
        ("0 5-5/2 * * *", "0 5 * * *"),
        ("0 05-5/2 * * *", "0 5 * * *"),
        ("0 0 * * mon-MON/2", "0 0 * * mon"),
        ("0 0 * * mon-1/2", "0 0 * * 1"),
        ("0 0 1 2,jun-jun/3 *", "0 0 1 2,6 *"),
        ("0 5-6/2 * * *", "0 5 * * *"),
        ("0 5-15/5 * * *", "0 5,10,15 * * *"),
        ("0 0-0/2 * * *", "0 0 * * *"),
    ],
)
def test_a_step_in_a_range_of_one_value_adds_nothing(cron, meant):
    asked, plain = (Timing(cron=text).upcoming(NOW, 20) for text in (cron, meant))
    assert asked == plain


def test_an_interval_counts_from_its_anchor_whatever_the_clock_on_the_wall_does():
    timing = Timing(every=600.0, anchor=NOW)
    assert timing.after(NOW) == NOW + timedelta(minutes=10)
    assert timing.after(NOW + timedelta(minutes=25)) == NOW + timedelta(minutes=30)
    assert timing.after(NOW + timedelta(minutes=30)) == NOW + timedelta(minutes=40)


def test_an_interval_with_a_start_begins_there():
    start = NOW + timedelta(days=1)
    assert Timing(every=600.0, starts_at=start, anchor=start).after(NOW) == start


def test_nothing_runs_before_the_start_nor_after_the_end():
    timing = Timing(cron="0 8 * * *", starts_at=utc("2026-07-03T08:00"), ends_at=utc("2026-07-04T08:00"))
    assert timing.upcoming(NOW, 5) == [utc("2026-07-03T08:00"), utc("2026-07-04T08:00")]


SILENT_YEAR = decide(Timing(cron="* * * * *"), NOW, NOW + timedelta(days=365), None)


def test_of_many_missed_slots_the_latest_runs_once():
    due, now = utc("2026-07-01T08:00"), utc("2026-07-01T11:30")
    decision = decide(Timing(cron="0 * * * *"), due, now, None)
    assert decision.slot == utc("2026-07-01T11:00")
    assert decision.missed == Missed(due, utc("2026-07-01T10:00"), 3)
    assert decision.next_at == utc("2026-07-01T12:00")


def test_a_slot_that_is_too_late_is_missed_like_the_others():
    due, now = utc("2026-07-01T08:00"), utc("2026-07-01T11:30")
    decision = decide(Timing(cron="0 * * * *"), due, now, 1799)
    assert decision.slot is None
    assert decision.missed == Missed(due, utc("2026-07-01T11:00"), 4)
    assert decide(Timing(cron="0 * * * *"), due, now, 1800).slot == utc("2026-07-01T11:00")


def test_a_year_of_silence_is_not_counted_minute_by_minute():
    assert SILENT_YEAR.slot == NOW + timedelta(days=365)
    assert SILENT_YEAR.missed == Missed(NOW, NOW + timedelta(days=365) - MINUTE, None)


def test_missed_slots_of_a_rare_schedule_end_with_the_one_before():
    decision = decide(Timing(cron="0 0 1 1 *"), utc("2020-01-01"), utc("2026-07-01"), None)
    assert (decision.slot, decision.missed) == (utc("2026-01-01"), Missed(utc("2020-01-01"), utc("2025-01-01"), 6))


def test_a_schedule_that_has_ended_is_due_no_more():
    assert decide(Timing(cron="0 8 * * *", ends_at=NOW), utc("2026-07-01T08:00"), NOW, None).next_at is None


@pytest.mark.parametrize(
    ("timing", "says"),
    [
        (Timing(cron="0 25 * * *"), "bad hour.*five fields"),
        (Timing(cron="* * * *"), "4 fields"),
        (Timing(cron="* * * * * *"), "every=timedelta"),
        (Timing(cron="@reboot"), "1 fields.*@daily"),
        (Timing(cron="0 0 * * 1L/2"), "bad day-of-week"),
        (Timing(cron="x" * 101), "at most 100 characters"),
        (Timing(cron="0 0 30 2 *"), "bad day-of-month"),
        (Timing(cron="0 0 1 1 *", ends_at=NOW + timedelta(days=9)), "never fires before it ends"),
        (Timing(cron="0 0 31 4,6 mon#1", ends_at=NOW + timedelta(days=9)), "never fires"),
        (Timing(cron="@daily", timezone="Europe/Berlyn"), "Did you mean 'Europe/Berlin'"),
        (Timing(cron="@daily", timezone="../etc/passwd"), "not known"),
        (Timing(cron="@daily", every=60.0), "one of the two"),
        (Timing(), "one of the two"),
        (Timing(every=0.5), "from one second"),
        (Timing(every=float("nan")), "from one second"),
        (Timing(cron="@daily", starts_at=NOW, ends_at=NOW), "Swap them"),
    ],
)
def test_what_can_never_run_is_refused_with_advice(timing, says):
    with pytest.raises(InvalidSchedule, match=says):
        check_timing(timing, NOW)


@pytest.mark.parametrize(
    ("timing", "words"),
    [
        (Timing(cron="30 8 * * mon-fri"), "At 08:30 on Monday through Friday"),
        (Timing(cron="@daily"), "At 00:00 every day"),
        (Timing(every=600.0), "Every 10 minutes"),
        (Timing(every=3600.0), "Every hour"),
        (Timing(every=90.5), "Every 90.5 seconds"),
        (Timing(cron="what?"), "what?"),
    ],
)
def test_timings_in_words(timing, words):
    assert words.lower() in timing.description.lower()
