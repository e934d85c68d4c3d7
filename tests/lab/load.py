"""The load: a worker and an enqueuer on a host of their own, who reach the database in one way."""

from __future__ import annotations

import json
import os
import sys
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .cluster import Cluster
from .network import Host
from .programs import Programs

ROOT = Path(__file__).parents[2]
LEASE = 15
SILENT = "10.9.0.99"
"""An address that swallows packets."""
TIMEOUTS = {
    "connect_timeout": 2,
    "keepalives_idle": 5,
    "keepalives_interval": 2,
    "keepalives_count": 3,
    "tcp_user_timeout": 5000,
}
HAPROXY = """
defaults
    mode tcp
    timeout connect 2s
    timeout client 1h
    timeout server 1h
listen primary
    bind 127.0.0.1:5000
    option httpchk GET /primary
    http-check expect status 200
    default-server inter 1s fall 2 rise 1 on-marked-down shutdown-sessions
{servers}
"""


@dataclass(frozen=True)
class Line:
    number: int
    at: float
    task_id: str = ""


class Load:
    def __init__(self, reach: str, host: Host, cluster: Cluster, programs: Programs, rate: float = 25.0) -> None:
        self.reach, self.host, self.cluster, self.programs, self.rate = reach, host, cluster, programs, rate
        self.acknowledged_file, self.runs_file = host.folder / "acknowledged", host.folder / "runs"
        self.ticks_file = host.folder / "ticks"

    def place(self) -> dict[str, Any]:
        """The setting DATABASES."""
        if self.reach == "haproxy":
            return {"HOST": "127.0.0.1", "PORT": "5000", "OPTIONS": TIMEOUTS}
        found, options = self.cluster.place, {"target_session_attrs": "read-write"}
        if self.reach == "silent":
            return {"HOST": f"{SILENT},{found['host']}", "PORT": f"5432,{found['port']}", "OPTIONS": options}
        return {"HOST": found["host"], "PORT": found["port"], "OPTIONS": {**TIMEOUTS, **options}}

    @property
    def environment(self) -> dict[str, str]:
        return {
            **os.environ,
            "DJANGO_SETTINGS_MODULE": "tests.lab.settings",
            "PYTHONPATH": str(ROOT),
            "LAB_PLACE": json.dumps(self.place()),
            "LAB_QUEUE": self.reach,
            "LAB_RATE": str(self.rate),
            "LAB_RUNS": str(self.runs_file),
            "LAB_LEASE": str(LEASE),
            "LAB_TICKS": str(self.ticks_file),
            "LAB_ACKNOWLEDGED": str(self.acknowledged_file),
        }

    def start(self) -> None:
        if self.reach == "haproxy":
            self.start_haproxy()
        if self.reach == "silent":
            self.host.know_silent(SILENT)
        self.start_worker()
        self.run("enqueuer", "-m", "tests.lab.enqueuer")

    def start_worker(self) -> None:
        worker = ["runworker", "--queues", self.reach, "--threads", "6", "--name", self.host.name]
        self.run("worker", "-m", "django", *worker)

    def restart_worker(self) -> None:
        self.kill(b"runworker")
        self.start_worker()

    def run(self, log: str, *words: str) -> None:
        self.host.start_as_root([sys.executable, *words], self.environment, log, ROOT)

    def start_haproxy(self) -> None:
        hosts = self.cluster.hosts
        servers = [f"    server {host.name} {host.address}:5432 check port 8008" for host in hosts]
        settings = self.host.folder / "haproxy.cfg"
        settings.write_text(HAPROXY.format(servers="\n".join(servers)))
        self.host.start([str(self.programs.haproxy), "-db", "-f", str(settings)], self.programs.environment, "haproxy")

    def stop_enqueuing(self) -> None:
        self.kill(b"tests.lab.enqueuer")

    def kill(self, word: bytes) -> None:
        for pid in self.host.processes():
            with suppress(FileNotFoundError, ProcessLookupError):
                if word in Path(f"/proc/{pid}/cmdline").read_bytes():
                    os.kill(pid, 9)

    def acknowledged(self) -> list[Line]:
        return read(self.acknowledged_file)

    def runs(self) -> list[Line]:
        return read(self.runs_file)

    def ticks(self) -> list[Line]:
        """Counts of tasks that take longer than a lease."""
        return read(self.ticks_file)


def read(file: Path) -> list[Line]:
    """Without a last line that is still being written."""
    if not file.exists():
        return []
    lines = [line.split() for line in file.read_text(encoding="utf-8").splitlines(keepends=True) if line.endswith("\n")]
    return [Line(int(parts[0]), float(parts[1]), *parts[2:]) for parts in lines]
