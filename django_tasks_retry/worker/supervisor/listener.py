"""Listens for wake-ups from PostgreSQL on a connection of its own. Polling is the truth; this only makes it prompt."""

from __future__ import annotations

import logging
import os
import secrets
from contextlib import suppress
from typing import Any

from django.db import connections
from django.db.utils import Error

from ...taskqueue.engines import engine_for
from ...taskqueue.enqueue import CHANNEL, WakeUp, WakeUpKind, read_message
from ..shared.database import Deadline
from ..shared.interval import Interval

logger = logging.getLogger(__name__)


class Listener:
    def __init__(self, using: str, *, wanted: bool, seconds: float) -> None:
        self.using, self.seconds = using, seconds
        self.wanted = wanted and engine_for(using).can_notify
        self.is_elected = True
        self.connection: Any = None
        self.deadline = Deadline(lambda: self.connection, seconds)
        self.try_again = Interval(5.0)

    def fileno(self) -> int:
        return int(self.connection.fileno())

    @property
    def is_ready(self) -> bool:
        """Return whether it hears wake-ups, or could if it were elected."""
        return self.connection is not None or (self.wanted and not self.is_elected)

    def keep_open(self) -> bool:
        """Open it if it is closed, every few seconds. Return True when it has just been opened."""
        if self.connection is not None or not (self.wanted and self.is_elected) or not self.try_again.is_due():
            return False
        try:
            self.open()
        except (Error, OSError) as error:
            logger.debug("cannot listen for wake-ups: %s", error)
            self.close()
        return self.connection is not None

    def open(self) -> None:
        wrapper = connections[self.using].copy()
        wrapper.settings_dict = {**wrapper.settings_dict, "OPTIONS": {**wrapper.settings_dict["OPTIONS"], "pool": None}}
        with wrapper.wrap_database_errors:
            self.connection = wrapper.get_new_connection(wrapper.get_connection_params())
            with self.deadline.running():
                self.connection.autocommit = True
                self.connection.execute(f"LISTEN {CHANNEL}")
                self.test()

    def test(self) -> None:
        """A pooler in transaction mode accepts LISTEN and delivers nothing."""
        token = str(WakeUp(WakeUpKind.TEST, secrets.token_hex(8)))
        with connections[self.using].cursor() as cursor:
            cursor.execute("SELECT pg_notify(%s, %s)", [CHANNEL, token])
        for note in self.connection.notifies(timeout=self.seconds / 2):
            if note.payload == token:
                return
        self.wanted = False
        self.close()
        logger.warning("wake-ups do not arrive (is there a pooler in transaction mode?): polling only")

    def messages(self) -> set[WakeUp]:
        """Return the messages that have arrived."""
        try:
            self.connection.pgconn.consume_input()
            notes = iter(self.connection.pgconn.notifies, None)
            return {message for note in notes if (message := read_message(note.extra.decode(), note.be_pid))}
        except Exception as error:
            logger.debug("lost the connection for wake-ups: %s", error)
            self.close()
            return set()

    def close(self) -> None:
        connection, self.connection = self.connection, None
        if connection is not None:
            with suppress(Exception):
                connection.close()

    def close_in_child(self) -> None:
        """Close the socket in a forked child, without a message to the server, which still serves the parent."""
        if self.connection is not None:
            with suppress(OSError):
                os.close(self.connection.fileno())
