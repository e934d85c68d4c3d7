"""A primary and a standby that is told of every commit before its client is."""

from __future__ import annotations

import subprocess

from tests.pg import PgCluster, version
from tests.worker.trouble import Server

NAME = "standby"


class Primary(Server):
    def __init__(self) -> None:
        self.cluster = PgCluster(version(), {"wal_level": "replica", "max_wal_senders": "4"})
        self.cluster.initdb()
        self.cluster.start()

    def fail_over(self, standby: Standby) -> None:
        """The primary is gone from one moment to the next; the standby takes its place."""
        self.stop(how=3)
        standby.promote()


class Standby(PgCluster):
    """A copy of a running cluster that follows it."""

    def __init__(self, primary: PgCluster) -> None:
        super().__init__(version())
        self.primary = primary

    def initdb(self) -> None:
        source = f"host=127.0.0.1 port={self.primary.port} user=postgres application_name={NAME}"
        command = [str(self.bin / "pg_basebackup"), "-D", str(self.data), "-d", source, "-R", "-c", "fast", "--no-sync"]
        self.data.chmod(0o700)
        subprocess.run(command, check=True, **self._as_server())

    def promote(self) -> None:
        command = [str(self.bin / "pg_ctl"), "promote", "-w", "-s", "-D", str(self.data)]
        subprocess.run(command, check=True, **self._as_server())
