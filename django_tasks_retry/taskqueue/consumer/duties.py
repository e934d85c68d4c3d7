"""Duties: which of the things that any worker does for the whole queue there are to do, by one question."""

from __future__ import annotations

from typing import NamedTuple

from ..database import database
from ..engines import engine_for


class Duties(NamedTuple):
    lost: bool = False
    """Leases have expired."""
    expired: bool = False
    """Tasks have expired before their first attempt began."""
    waiting: bool = False
    """Tasks wait for a batch or a signal."""
    scheduled: bool = False
    """There are schedules, due or not."""


def find_duties(*, backend: str = "default") -> Duties:
    return Duties(*engine_for(database(backend)).duties())
