"""One engine per database: what the verbs of the queue need from it. Chosen once for each alias."""

from functools import cache

from django.db import NotSupportedError, connections

from .base import Engine
from .postgresql import PostgreSQL
from .sqlite import SQLite
from .statements import install_after_migrate

ENGINES: dict[str, type[PostgreSQL] | type[SQLite]] = {"postgresql": PostgreSQL, "sqlite": SQLite}


@cache
def engine_for(using: str) -> Engine:
    vendor = connections[using].vendor
    if vendor not in ENGINES:
        raise NotSupportedError(f"Database {using!r} is {vendor}, which cannot hold tasks. Use PostgreSQL or SQLite.")
    return ENGINES[vendor](using)
