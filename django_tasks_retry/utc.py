"""Instants: aware datetimes in UTC, in Python and in the database, whatever USE_TZ and TIME_ZONE say.

Local time has hours that come twice and hours that never come, so the queue stores, compares and adds instants only.
Local time is made from an instant at the very end, for people.
"""

from datetime import UTC, datetime
from functools import cache, lru_cache
from typing import Any

from django.conf import settings
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.models import DateTimeField
from django.utils import timezone


def as_instant(moment: datetime) -> datetime:
    """Return the same instant in UTC. A naive time is the project's local time; `fold` tells repeated times apart."""
    if moment.tzinfo is UTC:
        return moment
    aware = timezone.make_aware(moment, timezone.get_default_timezone()) if timezone.is_naive(moment) else moment
    return aware.astimezone(UTC)


def in_project_time(moment: datetime | None) -> datetime | None:
    """Return a time as the project's code expects it: naive local time with its `fold` if USE_TZ is off."""
    if moment is None or settings.USE_TZ:
        return moment
    return timezone.make_naive(moment, timezone.get_default_timezone())


def sqlite_text(moment: datetime) -> str:
    """Format in UTC, always with microseconds, so that texts compare as times."""
    return utc_text(as_instant(moment))


@lru_cache(maxsize=100)
def utc_text(instant: datetime) -> str:
    """Rows of one batch share most of their times."""
    return instant.replace(tzinfo=None).isoformat(sep=" ", timespec="microseconds")


def adapted(moment: datetime, connection: BaseDatabaseWrapper) -> Any:
    """An instant as a parameter of a statement."""
    return sqlite_text(moment) if connection.vendor == "sqlite" else as_instant(moment)


def read(moment: datetime, connection: BaseDatabaseWrapper) -> datetime:
    """The instant that a statement answered with."""
    # SQLite's text was read as a naive time, or as one of the connection's zone. It is UTC, so only the zone is wrong.
    return moment.replace(tzinfo=UTC) if connection.vendor == "sqlite" else as_instant(moment)


class InstantField(DateTimeField):  # type: ignore[type-arg]
    """A DateTimeField whose values are instants. Migrations know it as a DateTimeField: the column is the same."""

    def deconstruct(self) -> Any:
        name, _, args, kwargs = super().deconstruct()
        return name, "django.db.models.DateTimeField", args, kwargs

    def get_prep_value(self, value: Any) -> Any:
        prepared = super().get_prep_value(value)
        return as_instant(prepared) if isinstance(prepared, datetime) else prepared

    def get_db_prep_value(self, value: Any, connection: BaseDatabaseWrapper, prepared: bool = False) -> Any:  # noqa: FBT001, FBT002 - as Django calls it
        moment = value if prepared else self.get_prep_value(value)
        return adapted(moment, connection) if isinstance(moment, datetime) else moment

    def from_db_value(self, value: datetime | None, _: Any, connection: BaseDatabaseWrapper) -> datetime | None:
        return None if value is None else read(value, connection)


MOST_KNOWN = 100


@cache
def instant_loader() -> type[Any]:
    """Return psycopg's loader of timestamptz that reads instants, at a tenth of the cost of Django's.

    Django's reads a text by a regular expression and converts its zone. Made when it is first needed: without
    PostgreSQL there may be no psycopg.
    """
    from psycopg.types.datetime import TimestamptzLoader

    class InstantLoader(TimestamptzLoader):
        def __init__(self, oid: int, context: Any = None) -> None:
            super().__init__(oid, context)
            self.known: dict[str, datetime] = {}

        def load(self, data: Any) -> datetime:
            """Tasks that were enqueued or claimed together share a few times, which are cached."""
            text = str(data, "ascii")
            moment = self.known.get(text)
            if moment is None:
                if len(self.known) == MOST_KNOWN:
                    self.known.clear()
                moment = self.known[text] = self.read(text, data)
            return moment

        def read(self, text: str, data: Any) -> datetime:
            try:
                moment = datetime.fromisoformat(text)
            except ValueError:
                moment = super().load(data)
            return moment if moment.tzinfo is UTC else moment.astimezone(UTC)

    return InstantLoader
