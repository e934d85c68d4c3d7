"""Patroni with etcd on three hosts."""

from __future__ import annotations

import json
import time
import urllib.request
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import psycopg

from .network import Host
from .programs import Programs

TIMING = {"ttl": 20, "loop_wait": 2, "retry_timeout": 4, "failsafe_mode": True}
PARAMETERS = {
    "max_connections": 200,
    "shared_buffers": "128MB",
    "fsync": "off",  # hosts lose power as processes do: what was written stays with the kernel
    "unix_socket_directories": "",
    "log_min_messages": "warning",
    "tcp_keepalives_idle": 5,
    "tcp_keepalives_interval": 2,
    "tcp_keepalives_count": 3,
    "tcp_user_timeout": 10000,
    "wal_keep_size": "512MB",
}
READY_SECONDS = 180.0
STEADY_LOOKS = 4


def wait_until(fact: Callable[[], Any], what: str, seconds: float = READY_SECONDS) -> Any:
    deadline = time.monotonic() + seconds
    while not (found := fact()):
        if time.monotonic() > deadline:
            raise TimeoutError(f"waited {seconds:g} s in vain for {what}")
        time.sleep(0.2)
    return found


def has_etcd(host: Host) -> bool:
    try:
        answer = urllib.request.urlopen(f"http://{host.address}:2379/health", timeout=1)
        return bool(json.load(answer)["health"] == "true")
    except (OSError, ValueError):
        return False


class Cluster:
    def __init__(self, hosts: list[Host], programs: Programs, *, synchronous: bool) -> None:
        self.hosts, self.programs, self.synchronous = hosts, programs, synchronous
        self.workers: list[Host] = []
        self.restart_worker: Callable[[], None] = lambda: None

    @property
    def place(self) -> dict[str, str]:
        """How libpq finds the primary among all hosts."""
        addresses = ",".join(host.address for host in self.hosts)
        return {"host": addresses, "port": ",".join("5432" for _ in self.hosts)}

    def start(self) -> None:
        for host in self.hosts:
            self.start_etcd(host)
        for host in self.hosts:
            self.start_patroni(host)
        wait_until(self.is_whole, "a cluster of three")

    def start_host(self, host: Host) -> None:
        """After it lost power."""
        self.start_etcd(host)
        self.start_patroni(host)

    def start_etcd(self, host: Host) -> None:
        peers = ",".join(f"{each.name}=http://{each.address}:2380" for each in self.hosts)
        own, clients = f"http://{host.address}:2380", f"http://{host.address}:2379"
        words = {
            "--name": host.name,
            "--data-dir": "etcd",
            "--listen-peer-urls": own,
            "--initial-advertise-peer-urls": own,
            "--listen-client-urls": clients,
            "--advertise-client-urls": clients,
            "--initial-cluster": peers,
            "--initial-cluster-state": "existing" if (host.folder / "etcd").exists() else "new",
            "--heartbeat-interval": "300",
            "--election-timeout": "3000",
        }
        command = [str(self.programs.etcd), *(part for pair in words.items() for part in pair)]
        host.start(command, {**self.programs.environment, "ETCD_UNSUPPORTED_ARCH": ""}, "etcd")

    def start_patroni(self, host: Host) -> None:
        settings = host.folder / "patroni.json"
        settings.write_text(json.dumps(self.settings_of(host)))
        host.start([self.programs.python, "-m", "patroni", str(settings)], self.programs.environment, "patroni")

    def settings_of(self, host: Host) -> dict[str, Any]:
        modes = {"synchronous_mode": self.synchronous, "synchronous_mode_strict": self.synchronous}
        trust = ["host all all 10.9.0.0/24 trust", "host replication all 10.9.0.0/24 trust"]
        who = {name: {"username": "postgres"} for name in ("superuser", "replication", "rewind")}
        return {
            "scope": "lab",
            "name": host.name,
            "restapi": {"listen": f"{host.address}:8008", "connect_address": f"{host.address}:8008"},
            "etcd3": {"hosts": [f"{each.address}:2379" for each in self.hosts]},
            "bootstrap": {
                "dcs": {**TIMING, **modes, "postgresql": {"use_pg_rewind": True, "parameters": PARAMETERS}},
                "initdb": [{"encoding": "UTF8"}, {"locale": "C"}, {"auth": "trust"}],
            },
            "postgresql": {
                "listen": f"{host.address}:5432",
                "connect_address": f"{host.address}:5432",
                "data_dir": str(host.folder / "data"),
                "bin_dir": str(self.programs.postgresql),
                "pgpass": str(host.folder / "pgpass"),
                "pg_hba": trust,
                "authentication": who,
            },
        }

    # Questions

    def members(self) -> list[dict[str, Any]]:
        for host in self.hosts:
            with suppress(OSError, ValueError):
                found = urllib.request.urlopen(f"http://{host.address}:8008/cluster", timeout=1)
                members: list[dict[str, Any]] = json.load(found)["members"]
                return members
        return []

    def is_whole(self) -> bool:
        """A leader, two standbys that follow it, and three members of etcd; for some seconds, since a standby that has
        just come back says so before it looks at its own history."""
        for _ in range(STEADY_LOOKS):
            if not (self.has_members() and all(map(has_etcd, self.hosts))):
                return False
            time.sleep(1)
        return True

    def has_members(self) -> bool:
        members = self.members()
        states = {member["role"]: member["state"] for member in members}
        following = [member for member in members if member["state"] == "streaming" and member.get("lag") == 0]
        is_safe = not self.synchronous or states.get("sync_standby") == "streaming"
        return states.get("leader") == "running" and len(following) == len(self.hosts) - 1 and is_safe

    def named(self, role: str) -> Host:
        """The host of the leader, or of a standby: a synchronous one if there is one."""
        roles = {member["name"]: member["role"] for member in self.members()}
        wanted = {"leader"} if role == "leader" else {"sync_standby"} if self.synchronous else {"replica"}
        return next(host for host in self.hosts if roles.get(host.name) in wanted)

    def switch_over(self) -> None:
        leader = self.named("leader")
        candidate = self.named("standby")
        body = json.dumps({"leader": leader.name, "candidate": candidate.name}).encode()
        request = urllib.request.Request(
            f"http://{leader.address}:8008/switchover", body, {"Content-Type": "application/json"}
        )
        urllib.request.urlopen(request, timeout=60).read()

    def connect(self, database: str = "lab") -> psycopg.Connection[Any]:
        place = {**self.place, "user": "postgres", "dbname": database, "connect_timeout": 3}
        return psycopg.connect(**place, target_session_attrs="read-write", autocommit=True)

    def logs(self) -> list[Path]:
        return [log for host in self.hosts for log in host.folder.glob("*.log")]
