"""Reads the server's times as instants, by the offset that each text bears. Needs psycopg."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from psycopg.types.datetime import TimestamptzLoader


class InstantLoader(TimestamptzLoader):
    """Where Django's reads a text by a regular expression and lays its zone over the answer, at ten times the cost."""

    def load(self, data: Any) -> datetime:
        try:
            moment = datetime.fromisoformat(str(data, "ascii"))
        except ValueError:
            moment = super().load(data)
        return moment if moment.tzinfo is UTC else moment.astimezone(UTC)
