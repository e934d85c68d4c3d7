"""A fresh database session for each attempt: what one task leaves behind never reaches the next.

Between attempts a session is kept open but out of sight. Code that uses it must ask for it first, and so its use is
noticed, also behind Django's back. A session that was used is reset and gets a new wrapper.
"""

import logging
import os
import select
from collections.abc import Callable
from contextlib import suppress
from typing import Any
from weakref import WeakSet

from asgiref.sync import SyncToAsync
from django.db import connections
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.backends.signals import connection_created

from ..logs import log_exception
from ..shared.database import discard

logger = logging.getLogger(__name__)
KEPT_AS_MADE = (
    "autocommit", "isolation_level", "read_only", "deferrable", "row_factory", "cursor_factory", "prepare_threshold",
)  # fmt: skip
"""Attributes of the driver's connection that a task may change, and that no statement resets."""

# All of DISCARD ALL but PLANS, which no task can see: planning the stored functions anew took 1.9 ms of the server.
RESET = """\
CLOSE ALL; SET SESSION AUTHORIZATION DEFAULT; RESET ROLE; RESET ALL; DEALLOCATE ALL; UNLISTEN *; DISCARD SEQUENCES; \
DISCARD TEMP; SELECT pg_catalog.pg_advisory_unlock_all()"""
TIME_ZONE, ROLE = ", pg_catalog.set_config('TimeZone', %s, false)", "; SET ROLE %s"
"""Set by Django for each new connection."""

SET_UP = frozenset({"init_connection_state", "_configure_connection", "_configure_timezone", "_configure_role"})
COMMAND_OK, TUPLES_OK = 1, 2  # of libpq; on SQLite there may be no driver to import them from
SLICE = 1000  # milliseconds, between which a timeout can be raised into the thread


class Session:
    """One connection of one thread, kept open between the attempts that use it."""

    def __init__(self, alias: str) -> None:
        self.alias = alias
        self.idle: Any = None
        self.made: dict[str, Any] = {}
        self.statement = b""
        self.sets_up = False  # whether its backend sets more on a new connection than Django's does
        self.adopt(connections[alias])
        self.is_used = self.wrapper.connection is not None

    def adopt(self, wrapper: BaseDatabaseWrapper) -> None:
        self.wrapper = wrapper
        wrapper.connect = self.connect  # type: ignore[method-assign]

    def connect(self) -> None:
        """Hand out the idle session, or open one. Replaces the wrapper's own method."""
        self.is_used = True
        idle, self.idle = self.idle, None
        if idle is not None and is_reset(idle):
            self.hand_out(idle)
            return
        close(idle)
        type(self.wrapper).connect(self.wrapper)
        self.made = settings_of(self.wrapper.connection)
        self.statement = reset_statement(self.wrapper)
        self.sets_up = self.wrapper.vendor == "postgresql" and not is_set_up_by_django(type(self.wrapper))

    def hand_out(self, session: Any) -> None:
        """Do what Django does for a new connection, receivers of `connection_created` included."""
        wrapper, kind = self.wrapper, type(self.wrapper)
        wrapper.connection, wrapper.autocommit = session, True
        try:
            if self.sets_up:  # else the reset has set it all, in the same round trip
                wrapper.init_connection_state()
            connection_created.send(sender=kind, connection=wrapper)
        except BaseException:
            wrapper.connection = None
            close(session)
            raise

    def reset(self) -> None:
        """Have the session made as new after an attempt, or close it. The next attempt waits for the answer."""
        if not self.is_used:
            return
        old, self.is_used = self.wrapper, False
        session = old.connection
        if session is None or not self.sends_reset(old):
            discard(old)
            session = None
        old.connection = None
        connections[self.alias] = fresh = connections.create_connection(self.alias)
        self.adopt(fresh)
        self.idle = session

    def sends_reset(self, wrapper: BaseDatabaseWrapper) -> bool:
        """Return whether the session will be emptied. Databases other than PostgreSQL have no such statement."""
        left_open = wrapper.in_atomic_block or wrapper.needs_rollback or wrapper.errors_occurred
        if wrapper.vendor != "postgresql" or left_open:
            return False
        try:
            session = wrapper.connection
            if session.info.transaction_status or settings_of(session) != self.made:
                return False
            if session.prepare_threshold is not None:
                session.execute(self.statement)  # the driver learns from the answer that its statements are gone
                return True
            with session.lock:
                session.pgconn.send_query(self.statement)
                return not session.pgconn.flush()
        except Exception:  # the driver's own errors: whatever is wrong, the session is closed
            return False

    def discard(self) -> None:
        """Close the session after an interruption, which may have struck in the middle of a statement."""
        idle, self.idle = self.idle, None
        close(idle)
        if self.wrapper.connection is not None:
            discard(self.wrapper)


class FreshConnections:
    """The sessions of one thread; entered around each attempt."""

    def __init__(self) -> None:
        self.sessions = [Session(alias) for alias in connections]

    def __enter__(self) -> None:
        pass

    def __exit__(self, *_: object) -> None:
        """Reset the sessions. One that cannot be reset is closed, which is no failure of the task."""
        for session in self.sessions:
            try:
                session.reset()
            except Exception:
                log_exception(logger, "a database session could not be reset and is closed", level=logging.WARNING)
                session.discard()

    def discard(self) -> None:
        for session in self.sessions:
            session.discard()


class LoopConnections:
    """The sessions of the one thread in which coroutines make their synchronous calls."""

    def __init__(self) -> None:
        self.sessions: FreshConnections | None = None

    def reset(self) -> None:
        """Reset behind the calls that are queued for that thread, and before any that comes later."""
        thread = SyncToAsync.single_thread_executor
        if thread._threads:
            thread.submit(self.reset_here)

    def reset_here(self) -> None:
        self.sessions = self.sessions or FreshConnections()
        with self.sessions:
            pass


def settings_of(session: Any) -> dict[str, Any]:
    return {name: getattr(session, name, None) for name in KEPT_AS_MADE}


def reset_statement(wrapper: BaseDatabaseWrapper) -> bytes:
    """Return the text that makes the session what Django made it: its settings, but nothing of a task."""
    if wrapper.vendor != "postgresql":
        return b""
    given = {TIME_ZONE: wrapper.timezone_name, ROLE: wrapper.settings_dict["OPTIONS"].get("assume_role")}
    compose: Callable[..., str] = wrapper.ops.compose_sql  # type: ignore[attr-defined] # of PostgreSQL's operations
    return "".join([RESET, *(compose(sql, [value]) for sql, value in given.items() if value)]).encode()


def is_set_up_by_django(kind: Any) -> bool:
    """Return whether Django's own backend alone decides what it sets on a new connection."""
    from django.db.backends.postgresql.base import DatabaseWrapper

    own = (
        kind.__mro__[: kind.__mro__.index(DatabaseWrapper)] if issubclass(kind, DatabaseWrapper) else (DatabaseWrapper,)
    )
    return not any(SET_UP & vars(each).keys() for each in own)


def is_reset(session: Any) -> bool:
    """Return whether the server has reset the idle session, and not ended it since."""
    try:
        pgconn, poll = session.pgconn, select.poll()
        poll.register(session.fileno(), select.POLLIN)
        while True:
            while pgconn.is_busy():
                poll.poll(SLICE)
                pgconn.consume_input()
            result = pgconn.get_result()
            if result is None:
                return not poll.poll(0)  # the last message of a server that hung up waits in the socket
            if result.status not in (COMMAND_OK, TUPLES_OK):
                return False
    except Exception:  # the driver's word for a connection that is closed
        return False


def close(session: Any) -> None:
    if session is not None:
        with suppress(Exception):
            session.close()


# Processes that a task forks

sessions: WeakSet[Any] = WeakSet()  # all open sessions of this process that have a socket, whichever thread uses them
inherited: list[Any] = []
"""Sessions that a forked process inherits, kept so that it does not close them in its parent's name."""


def note_session(connection: BaseDatabaseWrapper, **_: Any) -> None:
    if hasattr(connection.connection, "fileno"):
        sessions.add(connection.connection)


def let_go_of_sessions() -> None:
    """Close sessions in a process that a task forked: their sockets and transactions are its parent's."""
    nowhere = os.open(os.devnull, os.O_RDWR)
    for session in list(sessions):
        inherited.append(session)
        with suppress(Exception):
            os.dup2(nowhere, session.fileno())
    os.close(nowhere)
    sessions.clear()
    for wrapper in connections.all(initialized_only=True):
        wrapper.connection = None
        discard(wrapper)
