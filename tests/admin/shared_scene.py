"""One play of the scene for many tests: it stays in a transaction around theirs, which are savepoints in it."""

from __future__ import annotations

import copy
import time
from dataclasses import dataclass
from typing import Any

from django.db import connections, transaction

from django_tasks_retry.models import Task
from tests.admin import scene
from tests.router import CurrentDatabase

FRESH_SECONDS = 15
"""Workers of the scene are alive for 30 s and its leases hold for 60 s, so no page shows the difference."""


@dataclass
class Played:
    atomic: transaction.Atomic
    tasks: dict[str, Task]
    at: float


_played: dict[str, Played] = {}
_migrated: set[str] = set()


def prepare(alias: str) -> None:
    """Have a fresh scene in place before the test's own transaction begins. The first test makes the tables."""
    if alias not in _migrated or (alias in _played and is_fresh(alias)):
        return
    clear(alias)
    atomic = transaction.atomic(using=alias)
    atomic.__enter__()
    CurrentDatabase.current = alias
    try:
        _played[alias] = Played(atomic, scene.play(alias), time.monotonic())
    finally:
        CurrentDatabase.current = "default"


def is_fresh(alias: str) -> bool:
    return connections[alias].in_atomic_block and time.monotonic() - _played[alias].at < FRESH_SECONDS


def tasks_in(alias: str) -> dict[str, Any]:
    _migrated.add(alias)
    if alias not in _played:
        return scene.play(alias)
    return copy.deepcopy(_played[alias].tasks)


def clear(*aliases: str) -> None:
    """Roll the scenes of these databases back, or all of them. Tests alternate between two databases: both stay."""
    for alias, played in list(_played.items()):
        if aliases and alias not in aliases:
            continue
        del _played[alias]
        transaction.set_rollback(True, using=alias)
        played.atomic.__exit__(None, None, None)
