"""Periods: the stretches of time that history is partitioned by, and the ids that were made in each."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from uuid import UUID

from ...rules.ids import first_of

NAME = re.compile(r"p(\d{8})(?:_(\d{2}))?")


class Period(StrEnum):
    HOUR = "hour"
    DAY = "day"

    @property
    def length(self) -> timedelta:
        return timedelta(hours=1) if self is Period.HOUR else timedelta(days=1)

    def containing(self, moment: datetime) -> Stretch:
        moment = moment.astimezone(UTC).replace(minute=0, second=0, microsecond=0)
        return Stretch(moment if self is Period.HOUR else moment.replace(hour=0), self)


@dataclass(frozen=True, slots=True, order=True)
class Stretch:
    """One hour or day, in UTC, and the tasks that were enqueued in it."""

    start: datetime
    period: Period

    @property
    def end(self) -> datetime:
        return self.start + self.period.length

    @property
    def name(self) -> str:
        return self.start.strftime("p%Y%m%d_%H" if self.period is Period.HOUR else "p%Y%m%d")

    @property
    def next(self) -> Stretch:
        return Stretch(self.end, self.period)

    @property
    def first_id(self) -> UUID:
        return id_at(self.start)

    @property
    def end_id(self) -> UUID:
        """The first that lies behind it."""
        return id_at(self.end)


def id_at(moment: datetime) -> UUID:
    """Smaller than every id of this instant, of whatever version: the bounds of partitions leave no gap."""
    return UUID(int=first_of(round(moment.timestamp() * 1000)).int >> 80 << 80)


def stretch_named(name: str) -> Stretch | None:
    found = NAME.fullmatch(name)
    if found is None:
        return None
    day, hour = found.groups()
    start = datetime.strptime(day + (hour or "00"), "%Y%m%d%H").replace(tzinfo=UTC)
    return Stretch(start, Period.DAY if hour is None else Period.HOUR)
