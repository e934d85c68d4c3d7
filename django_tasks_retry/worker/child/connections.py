"""A fresh database session for each attempt: what one task leaves behind never reaches the next.

Between attempts a session is kept open but out of sight. Code that uses it must ask for it first, and so its use is
noticed, also behind Django's back. A session that was used is reset and gets a new wrapper.
"""

from __future__ import annotations

import logging
import os
import select
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
KEPT_AS_MADE = ("autocommit", "isolation_level", "read_only", "deferrable", "row_factory", "cursor_factory")
"""Attributes of the driver's connection that a task may change, and that no statement resets."""


class Session:
    """One connection of one thread, kept open between the attempts that use it."""

    def __init__(self, alias: str) -> None:
        self.alias = alias
        self.idle: Any = None
        self.made: dict[str, Any] = {}
        self.adopt(connections[alias])
        self.is_used = self.wrapper.connection is not None

    def adopt(self, wrapper: BaseDatabaseWrapper) -> None:
        self.wrapper = wrapper
        wrapper.connect = self.connect  # type: ignore[method-assign]

    def connect(self) -> None:
        """Hand out the idle session, or open one. Replaces the wrapper's own method."""
        self.is_used = True
        idle, self.idle = self.idle, None
        if idle is not None and not has_hung_up(idle):
            self.wrapper.connection, self.wrapper.autocommit = idle, True
            return
        close(idle)
        type(self.wrapper).connect(self.wrapper)
        self.made = settings_of(self.wrapper.connection)

    def reset(self) -> None:
        """Make the session as new after an attempt, or close it."""
        if not self.is_used:
            return
        old, self.is_used = self.wrapper, False
        session = old.connection
        if session is None or not self.can_be_kept(old):
            discard(old)
            session = None
        old.connection = None
        connections[self.alias] = fresh = connections.create_connection(self.alias)
        self.adopt(fresh)
        if session is not None:
            self.set_up(session)

    def can_be_kept(self, wrapper: BaseDatabaseWrapper) -> bool:
        """Return whether the session was emptied: DISCARD ALL does so on PostgreSQL; others have no such statement."""
        left_open = wrapper.in_atomic_block or wrapper.needs_rollback or wrapper.errors_occurred
        if wrapper.vendor != "postgresql" or left_open:
            return False
        try:
            session = wrapper.connection
            if session.info.transaction_status or settings_of(session) != self.made:
                return False
            session.execute("DISCARD ALL")
        except Exception:  # the driver's own errors: whatever is wrong, the session is closed
            return False
        return True

    def set_up(self, session: Any) -> None:
        """Do what Django does for a new connection, receivers of `connection_created` included."""
        self.wrapper.connection, self.wrapper.autocommit = session, True
        try:
            self.wrapper.init_connection_state()
            connection_created.send(sender=type(self.wrapper), connection=self.wrapper)
            self.idle = session
        except Exception:
            close(session)  # the next task connects anew, and meets the error itself
        self.wrapper.connection, self.is_used = None, False

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


def has_hung_up(session: Any) -> bool:
    """Return whether the server ended an idle connection: its last message then waits in the socket."""
    try:
        poll = select.poll()
        poll.register(session.fileno(), select.POLLIN)
        return bool(poll.poll(0))
    except Exception:  # the driver's word for a connection that is closed
        return True


def close(session: Any) -> None:
    if session is not None:
        with suppress(Exception):
            session.close()


# Processes that a task forks

sessions: WeakSet[Any] = WeakSet()
"""All open sessions of this process that have a socket, whichever thread uses them."""
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
