"""Reads of pages and metrics, from the replica that OPTIONS["CONSOLE_DATABASE"] names, or from the primary."""

from collections.abc import Callable
from typing import TypeVar

from django.db import InterfaceError, OperationalError

from ...conf import options
from ..database import source
from ..engines import engine_for
from ..timeouts import is_timeout

T = TypeVar("T")


def from_replica(backend: str, read: Callable[[], T]) -> T:
    """Return what `read` returns. Inside it, `database(backend)` is the replica, if there is one that answers."""
    replica = options(backend).console_database
    if replica is None:
        return read()
    before = source.set("replica")
    try:
        return read()
    except (OperationalError, InterfaceError) as error:
        if is_timeout(error):
            raise
        source.set("primary")
        return read()
    finally:
        source.reset(before)


def replica_lag(backend: str) -> float | None:
    """Return by how many seconds what is being read may be old; None if that is not known."""
    engine = engine_for(options(backend).console_database or "")
    return engine.fetch("replica_lag")[0][0] if "replica_lag" in engine.sql else None
