"""A PostgreSQL server for one run, as durable as a real one, and what it spends."""

from __future__ import annotations

import os
from typing import Any

import psycopg

from tests.pg import PgCluster

from . import meter

VERSION = os.environ.get("TEST_POSTGRESQL_VERSION", "16")
DURABLE = {"fsync": "on", "synchronous_commit": "on", "shared_buffers": "1GB"}


class Server:
    def __init__(self, max_connections: int = 200) -> None:
        settings = {**DURABLE, "max_connections": str(max_connections)}
        self.cluster = PgCluster(VERSION, settings)

    def __enter__(self) -> Server:
        self.cluster.initdb()
        self.cluster.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.cluster.remove()

    def url(self, database: str) -> str:
        return f"postgresql://postgres@127.0.0.1:{self.cluster.port}/{database}"

    def connect(self, database: str = "postgres") -> psycopg.Connection[Any]:
        return psycopg.connect(self.url(database), autocommit=True)

    def ask(self, database: str, question: str) -> Any:
        """The one value that answers a question."""
        with self.connect(database) as connection:
            return connection.execute(question).fetchone()[0]  # type: ignore[index]

    def fresh(self, database: str) -> str:
        """An empty database of this name; its URL."""
        with self.connect() as connection:
            connection.execute(f"DROP DATABASE IF EXISTS {database} WITH (FORCE)")
            connection.execute(f"CREATE DATABASE {database}")
        return self.url(database)

    def checkpoint(self) -> None:
        """Begin a measure right after a checkpoint, so that none falls into it and its pages are logged once."""
        with self.connect() as connection:
            connection.execute("CHECKPOINT")

    def wal(self) -> int:
        """Bytes of write-ahead log since the server was made."""
        return int(self.ask("postgres", "SELECT pg_current_wal_lsn() - '0/0'"))

    def cpu(self) -> float:
        """Seconds of CPU of the server's processes, alive and gone."""
        assert self.cluster.process is not None
        return meter.cpu(self.cluster.process.pid)
