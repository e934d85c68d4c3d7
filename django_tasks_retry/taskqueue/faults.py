"""What to do about an error from the database: one table, by SQLSTATE."""

from __future__ import annotations

from enum import Enum

from django.db.utils import Error, InterfaceError


class Remedy(Enum):
    RETRY_NOW = "the same statement may succeed at once"
    RECONNECT = "the connection is gone or points at the wrong server: open a new one"
    BACK_OFF = "the database is short of something: wait, then try again"
    FATAL = "trying again cannot help"


REMEDIES = {
    "40001": Remedy.RETRY_NOW,  # serialization_failure
    "40P01": Remedy.RETRY_NOW,  # deadlock_detected
    "55P03": Remedy.RETRY_NOW,  # lock_not_available
    "08": Remedy.RECONNECT,  # connection exceptions
    "25006": Remedy.RECONNECT,  # read_only_sql_transaction: this node is no longer the primary
    "25P02": Remedy.RECONNECT,  # in_failed_sql_transaction: somebody left a broken transaction behind
    "25P03": Remedy.RECONNECT,  # idle_in_transaction_session_timeout
    "26000": Remedy.RECONNECT,  # invalid_sql_statement_name: a pooler swapped the server connection
    "42P05": Remedy.RECONNECT,  # duplicate_prepared_statement: the same
    "57P": Remedy.RECONNECT,  # admin_shutdown, crash_shutdown, cannot_connect_now, idle_session_timeout
    "53": Remedy.BACK_OFF,  # disk full, out of memory, too many connections
    "57014": Remedy.BACK_OFF,  # query_canceled, as by statement_timeout
    "58": Remedy.BACK_OFF,  # system errors outside PostgreSQL
    "XX": Remedy.BACK_OFF,  # internal errors
    "22": Remedy.FATAL,  # data exceptions
    "23": Remedy.FATAL,  # integrity violations, the guard's refusals among them
    "28": Remedy.FATAL,  # invalid authorization
    "3D": Remedy.FATAL,  # no such database
    "42": Remedy.FATAL,  # syntax errors and missing privileges
}


def sqlstate(error: BaseException) -> str | None:
    """The code that PostgreSQL gave; None where the error came from the driver, or from SQLite."""
    cause = error.__cause__ or error
    state = getattr(cause, "sqlstate", None)
    return state if isinstance(state, str) else None


def remedy_for(error: BaseException) -> Remedy:
    """By the longest prefix in the table. What is not known backs off: it never ends a worker."""
    if not isinstance(error, Error):
        return Remedy.FATAL
    state = sqlstate(error)
    if state is None:
        return remedy_without_state(error)
    for length in (5, 3, 2):
        if state[:length] in REMEDIES:
            return REMEDIES[state[:length]]
    return Remedy.BACK_OFF


def remedy_without_state(error: Error) -> Remedy:
    """SQLite has no SQLSTATE; a connection that fails to open, or breaks, has none either."""
    text = str(error)
    if any(word in text for word in ("locked", "busy", "too many", "connection slots")):
        return Remedy.BACK_OFF
    if isinstance(error, InterfaceError) or "connect" in text or "closed" in text or "server" in text:
        return Remedy.RECONNECT
    if "constraint" in text or "IllegalMove" in text or "no such" in text:
        return Remedy.FATAL
    return Remedy.BACK_OFF
