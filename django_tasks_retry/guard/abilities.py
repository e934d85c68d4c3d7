"""The abilities of a server that speaks PostgreSQL. The engine and the guard do without those that it lacks."""

import os
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

from django.db import connections

CITUS = "SELECT EXISTS (SELECT 1 FROM pg_extension WHERE extname = 'citus')"


@dataclass(frozen=True, slots=True)
class Abilities:
    row_place: bool = True
    """`ctid` names the place of a row. Otherwise an UPDATE finds the rows that it locked by their ids."""
    advisory_locks: bool = True
    """Otherwise claims go to the head of a queue in any number, and calls with a unique key lock its holders."""
    listen: bool = True  # otherwise workers poll
    transition_tables: bool = True
    """Triggers see all rows of a statement as a table, or its TRUNCATE. Otherwise they look at row after row."""
    deferrable_triggers: bool = True
    """Triggers look at a result when the transaction ends. Otherwise only when it is written, as on SQLite."""
    inheritance: bool = True  # otherwise history is not partitioned, but pruned row by row
    kept_plans: bool = True  # Functions of the database keep the plans of statements. Otherwise their texts are sent.

    @property
    def guards_partitions(self) -> bool:
        return self.inheritance and self.transition_tables and self.deferrable_triggers

    def unenforced(self) -> list[str]:
        """Return the rules that only the queue's own code keeps here."""
        rules = {
            "no table of tasks, results, events or steps is truncated alone": self.transition_tables,
            "a result that was written before the end of its task is followed by it": self.deferrable_triggers,
        }
        return [rule for rule, is_kept in rules.items() if not is_kept]


ALL = Abilities()
PLAIN = Abilities(*[False] * len(Abilities.__slots__))
YUGABYTE = replace(PLAIN, advisory_locks=True)


@cache
def abilities_of(using: str) -> Abilities:
    """Return what this server can do, by what it says when it is connected to. `ABILITIES=plain` assumes the least."""
    if os.environ.get("ABILITIES") == "plain":
        return PLAIN
    wrapper: Any = connections[using]
    wrapper.ensure_connection()
    return known_by(wrapper.connection.info.parameter_status)


def known_by(told: Callable[[str], str | None]) -> Abilities:
    if told("crdb_version"):
        return PLAIN
    return YUGABYTE if "-YB-" in (told("server_version") or "") else ALL


@cache
def abilities_of_tables(using: str) -> Abilities:
    """The same for triggers and partitions. An extension takes some away, which only a statement tells."""
    abilities = abilities_of(using)
    with connections[using].cursor() as cursor:
        cursor.execute(CITUS)
        [is_citus] = cursor.fetchone()
    return replace(abilities, **dict.fromkeys(NOT_ON_CITUS, False)) if is_citus else abilities


NOT_ON_CITUS = ("transition_tables", "deferrable_triggers", "inheritance")
