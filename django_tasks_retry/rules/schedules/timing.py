"""The timing of schedules: their slots, as instants, by an expression of cron or a plain interval.

cronsim reads expressions and knows Debian's rules for the change of clocks: a fixed local time runs once on each
calendar day, right after the gap in spring; an expression whose minute or hour begins with `*` follows real time.
"""

import difflib
import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import cached_property
from itertools import islice
from zoneinfo import ZoneInfo, available_timezones

from cronsim import CronSim, CronSimError

from ...durations import checked_number
from ...errors import InvalidSchedule

NAMES = {
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
    "@monthly": "0 0 1 * *",
    "@weekly": "0 0 * * 0",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@hourly": "0 * * * *",
}
STEPS = re.compile(r"\b(\w+)-(\w+)/[1-9]\d*\b")
DAYS = ("sun", "mon", "tue", "wed", "thu", "fri", "sat")
MONTHS = ("", "jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
NUMBERS = {name: str(number) for names in (DAYS, MONTHS) for number, name in enumerate(names)}
HOW = "Write five fields, minute hour day month weekday, such as '30 8 * * mon-fri', or a name such as @daily."
LONGEST_EXPRESSION = 100
SHORTEST = 1.0
MOST_COUNTED = 20
"""Missed slots are counted up to here: after a year of silence nobody waits for half a million of them."""

NO_EXPRESSION = (CronSimError, ArithmeticError, AssertionError, LookupError, TypeError, ValueError)
"""Exceptions that cronsim raises for a text that is no expression."""

LATEST = datetime(9100, 1, 1, tzinfo=UTC)  # columns hold times before it
MICROSECOND, SECOND = timedelta(microseconds=1), timedelta(seconds=1)
A_DAY = timedelta(hours=25)
WINDOWS = [timedelta(hours=1), timedelta(days=1), timedelta(days=32), timedelta(days=370), timedelta(days=366 * 9)]


@dataclass(frozen=True, kw_only=True)
class Timing:
    """A timing: `cron` in a time zone, or `every` so many seconds counted from `anchor`."""

    cron: str = ""
    every: float | None = None
    timezone: str = "UTC"
    starts_at: datetime | None = None
    ends_at: datetime | None = None
    anchor: datetime | None = None

    def after(self, moment: datetime) -> datetime | None:
        """Return the first slot after this moment, or None. Raises if no column can hold it."""
        if self.starts_at is not None:
            moment = max(moment, self.starts_at - MICROSECOND)
        slot = self._by_interval(moment) if self.every else self._by_cron(moment)
        if slot is None or (self.ends_at is not None and slot > self.ends_at):
            return None
        if slot >= LATEST:
            raise InvalidSchedule(f"The next slot would be in the year {slot.year}. Change starts_at or the timing.")
        return slot

    def latest(self, first: datetime, now: datetime) -> datetime:
        """The last slot from `first`, which is one, up to now."""
        for window in WINDOWS:
            begin = max(first, now - window)
            slot = last_of(self.following(begin, now))
            if slot is not None or begin == first:
                return slot or first
        return first

    def following(self, moment: datetime, until: datetime) -> Iterator[datetime]:
        """The slots later than this moment, up to another."""
        slot = self.after(moment)
        while slot is not None and slot <= until:
            yield slot
            slot = self.after(slot)

    def upcoming(self, moment: datetime, count: int) -> list[datetime]:
        """The next few slots, to be shown."""
        return list(islice(self.following(moment, datetime.max.replace(tzinfo=UTC)), count))

    @cached_property
    def description(self) -> str:
        """The timing in words."""
        if self.every:
            return f"Every {spoken(self.every)}"
        try:
            return CronSim(expression(self.cron), datetime(2000, 1, 1)).explain()
        except NO_EXPRESSION:
            return self.cron

    def _by_interval(self, moment: datetime) -> datetime:
        # Its first slot is the start if that is given, else one interval after it was planned.
        first = 0 if self.starts_at is not None else 1
        return next_slot(self.anchor or self.starts_at or moment, self.every or 0, moment, first)

    def _by_cron(self, moment: datetime) -> datetime | None:
        zone = zone_of(self.timezone)
        local = moment.astimezone(zone)
        simulation = CronSim(expression(self.cron), local)
        if simulation.fixup_tz is None:
            return next_by_real_time(expression(self.cron), moment, zone)
        # In the hour that comes twice, cronsim also names what lies in its first half and is over.
        instants = (slot.astimezone(UTC) for slot in simulation)
        return next((slot for slot in instants if slot > moment), None)


def next_by_real_time(cron: str, moment: datetime, zone: ZoneInfo) -> datetime | None:
    """The next instant whose local time matches. Between two changes of the clocks local time is UTC with an offset."""
    start, begin, offset = moment, moment, offset_at(moment, zone)
    while True:
        naive = next(CronSim(cron, (start + offset).replace(tzinfo=None)), None)
        if naive is None:
            return None
        slot = naive.replace(tzinfo=UTC) - offset
        change = change_between(begin, slot, zone, offset)
        if change is None or slot < change:
            return slot
        start, begin, offset = change - SECOND, change, offset_at(change, zone)


def offset_at(moment: datetime, zone: ZoneInfo) -> timedelta:
    return moment.astimezone(zone).utcoffset() or timedelta(0)


def change_between(begin: datetime, end: datetime, zone: ZoneInfo, offset: timedelta) -> datetime | None:
    """Return when the clocks change from this offset: within a day, for hours that come twice, or before `end`."""
    changed = (later for later in (min(end, begin + A_DAY), end) if offset_at(later, zone) != offset)
    end = next(changed, begin)
    if end == begin:
        return None
    while end - begin > SECOND:
        middle = begin + SECOND * ((end - begin) // SECOND // 2 or 1)
        begin, end = (middle, end) if offset_at(middle, zone) == offset else (begin, middle)
    return end


def expression(cron: str) -> str:
    """Return what cronsim reads as it is meant: it would read `5-5/2` as `5/2`."""
    return STEPS.sub(without_steps, NAMES.get(cron.strip().lower(), cron))


def without_steps(range_: re.Match[str]) -> str:
    first, last = (NUMBERS.get(value.lower(), value).lstrip("0") for value in range_.groups())
    return range_[1] if first == last else range_[0]


def zone_of(name: str) -> ZoneInfo:
    try:
        return ZoneInfo(name)
    except (OSError, ValueError, LookupError):
        close = difflib.get_close_matches(str(name), available_timezones(), n=1)
        did_you_mean = f" Did you mean {close[0]!r}?" if close else ""
        raise InvalidSchedule(
            f"timezone={name!r} is not known.{did_you_mean} Give a name such as 'Europe/Berlin'."
        ) from None


def last_of(slots: Iterator[datetime]) -> datetime | None:
    last = None
    for slot in slots:
        last = slot
    return last


def check_timing(timing: Timing, now: datetime) -> None:
    """Refuse what can never run, with what to write instead."""
    if bool(timing.cron) == (timing.every is not None):
        raise InvalidSchedule("Give either cron='30 8 * * mon-fri' or every=timedelta(minutes=10), one of the two.")
    if timing.every is not None:
        wrong = InvalidSchedule(f"every={timing.every!r}: give a timedelta, or seconds, from one second to ten years.")
        checked_number(timing.every, wrong, least=SHORTEST)
    else:
        check_cron(timing.cron)
    zone_of(timing.timezone)
    if timing.starts_at and timing.ends_at and timing.ends_at <= timing.starts_at:
        raise InvalidSchedule(f"ends_at={timing.ends_at:%c} is not after starts_at={timing.starts_at:%c}. Swap them?")
    if timing.after(now) is None:
        until = f" before it ends at {timing.ends_at:%Y-%m-%d %H:%M} UTC" if timing.ends_at else ""
        raise InvalidSchedule(
            f"{timing.cron or timing.description!r} never fires{until}. Check the day, the month and the end."
        )


def check_cron(cron: object) -> None:
    if not isinstance(cron, str) or len(cron) > LONGEST_EXPRESSION:
        raise InvalidSchedule(f"cron={cron!r:.60}: give a text of at most {LONGEST_EXPRESSION} characters. {HOW}")
    fields = expression(cron).split()
    if len(fields) != 5:
        seconds = " For seconds use every=timedelta(seconds=…)." if len(fields) == 6 else ""
        raise InvalidSchedule(f"cron={cron!r} has {len(fields)} fields.{seconds} {HOW}")
    try:
        CronSim(expression(cron), datetime(2000, 1, 1))
    except NO_EXPRESSION as error:
        why = str(error).lower() if isinstance(error, CronSimError) else "it cannot be read"
        raise InvalidSchedule(f"cron={cron!r}: {why}. {HOW}") from None


@dataclass(frozen=True, slots=True)
class Missed:
    """Slots that came to nothing, from the first to the last; `count` is None for more than anybody counts."""

    first: datetime
    last: datetime
    count: int | None


@dataclass(frozen=True, slots=True)
class Decision:
    """The decision about a due schedule: the slot to run, if any; missed slots; and when it is due again."""

    slot: datetime | None
    missed: Missed | None
    next_at: datetime | None


def decide(timing: Timing, due: datetime, now: datetime, misfire_grace: float | None) -> Decision:
    """Take the latest slot since it was due, or none if it is older than `misfire_grace`: never a storm."""
    latest, following = due, timing.after(due)
    if following is not None and following <= now:
        latest, following = timing.latest(due, now), timing.after(now)
    is_late = misfire_grace is not None and now - latest > timedelta(seconds=misfire_grace)
    if is_late:
        return Decision(None, Missed(due, latest, counted(timing, due, latest)), following)
    if latest == due:
        return Decision(latest, None, following)
    before = timing.latest(due, latest - MICROSECOND)
    return Decision(latest, Missed(due, before, counted(timing, due, before)), following)


def counted(timing: Timing, first: datetime, last: datetime) -> int | None:
    if timing.every:
        return (last - first) // timedelta(seconds=timing.every) + 1
    count = 1 + sum(1 for _ in islice(timing.following(first, last), MOST_COUNTED))
    return count if count <= MOST_COUNTED else None


UNITS = [("day", 86400.0), ("hour", 3600.0), ("minute", 60.0), ("second", 1.0)]


def spoken(seconds: float) -> str:
    """A duration as people say it: 10 minutes, hour."""
    for unit, size in UNITS:
        if seconds >= size and not seconds % size:
            return unit if seconds == size else f"{seconds / size:g} {unit}s"
    return f"{seconds:g} seconds"


def next_slot(slot: datetime, interval: float, now: datetime, first: int = 1) -> datetime:
    """The first `slot + k * interval` (k = first, first + 1, …) later than now: no drift, no catch-up storm.

    For schedules, and for repeating tasks on SQLite. On PostgreSQL these are completed and enqueued again by one
    statement and the server's clock, so `finish_repeating.sql` and its variant say the same; a test compares them.
    """
    step = timedelta(seconds=interval)
    return slot + step * max(first, (now - slot) // step + 1)
