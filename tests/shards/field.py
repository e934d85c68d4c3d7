"""Three servers, two workers that serve all of them, and what may happen to a server."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from tempfile import mkdtemp
from time import monotonic, sleep
from typing import Any

from django.db import DatabaseError, connections

from tests.pg import PgCluster, die_with_parent

ROOT = Path(__file__).parents[2]


class Field:
    def __init__(self) -> None:
        self.servers = [PgCluster() for _ in range(3)]
        self.folder = Path(mkdtemp(prefix="dtr-shards-"))
        self.workers: list[subprocess.Popen[bytes]] = []

    def start(self) -> None:
        for server in self.servers:
            server.initdb()
            server.start()
        ports = ",".join(str(server.port) for server in self.servers)
        os.environ |= {"SHARD_PORTS": ports, "DJANGO_SETTINGS_MODULE": "tests.shards.settings", "PYTHONPATH": str(ROOT)}

    def command(self, *words: str, **popen: Any) -> subprocess.Popen[bytes]:
        return subprocess.Popen([sys.executable, "-m", "django", *words], preexec_fn=die_with_parent, **popen)

    def migrate(self) -> None:
        for process in [self.command("migrate", "-v0", "--database", f"q{n}") for n in range(3)]:
            assert process.wait(120) == 0

    def start_workers(self) -> None:
        for name in ("host-a", "host-b"):
            with (self.folder / name).open("wb") as log:
                words = ("runworker", "--processes", "3", "--threads", "4", "--name", name)
                self.workers.append(self.command(*words, stdout=log, stderr=log, start_new_session=True))

    def stop_workers(self) -> None:
        for worker in self.workers:
            worker.send_signal(signal.SIGTERM)
        for worker in self.workers:
            with suppress(subprocess.TimeoutExpired):
                worker.wait(40)
            with suppress(ProcessLookupError):
                os.killpg(worker.pid, signal.SIGKILL)

    def stop(self) -> None:
        self.stop_workers()
        for server in self.servers:
            signal_all(server, signal.SIGCONT)
            server.remove()

    def logs(self) -> str:
        return "".join(path.read_text(encoding="utf-8") for path in sorted(self.folder.iterdir()))

    @contextmanager
    def frozen(self, number: int) -> Iterator[None]:
        """Stop all processes of a server: the kernel goes on to acknowledge what is sent to it."""
        server = self.servers[number]
        for _ in range(2):  # the first may have forked meanwhile
            signal_all(server, signal.SIGSTOP)
        try:
            yield
        finally:
            signal_all(server, signal.SIGCONT)

    @contextmanager
    def killed(self, number: int) -> Iterator[None]:
        server = self.servers[number]
        signal_all(server, signal.SIGKILL)
        assert server.process is not None
        server.process.wait(10)
        try:
            yield
        finally:
            (server.data / "postmaster.pid").unlink(missing_ok=True)
            server.start()


def signal_all(server: PgCluster, number: int) -> None:
    if server.process is None or server.process.poll() is not None:
        return
    for pid in [server.process.pid, *children_of(server.process.pid)]:
        with suppress(ProcessLookupError):
            os.kill(pid, number)


def children_of(parent: int) -> list[int]:
    with suppress(OSError):
        return [int(pid) for pid in Path(f"/proc/{parent}/task/{parent}/children").read_text().split()]
    return []


def wait_for(fact: Any, seconds: float) -> float:
    """Return how long it took to become true, at most so long."""
    began = monotonic()
    while monotonic() - began < seconds:
        try:
            if fact():
                break
        except DatabaseError:  # a connection that broke with its server
            connections.close_all()
        sleep(0.02)
    return monotonic() - began
