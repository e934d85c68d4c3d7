"""The processes of the demo: a real worker, and a web server with --serve."""

from __future__ import annotations

import socket
import subprocess
import sys
import tempfile
import time
from types import TracebackType
from typing import Self

from django.conf import settings

STOP_SECONDS = 15


class ManagePy:
    """`manage.py …` in a process of its own, which ends with the block. Ctrl-C does not reach it directly."""

    def __init__(self, *arguments: str) -> None:
        self.command = [sys.executable, str(settings.BASE_DIR / "manage.py"), *arguments]
        self.log = tempfile.TemporaryFile("w+", encoding="utf-8")  # noqa: SIM115 - closed where the block ends
        self.process: subprocess.Popen[str] | None = None

    def __enter__(self) -> Self:
        self.process = subprocess.Popen(  # noqa: S603 - our own command line
            self.command, stdout=self.log, stderr=self.log, start_new_session=True, text=True
        )
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        if self.process and self.is_running():
            self.process.terminate()
            try:
                self.process.wait(STOP_SECONDS)
            except subprocess.TimeoutExpired:
                self.process.kill()
        self.log.close()

    def is_running(self) -> bool:
        return self.process is not None and self.process.poll() is None

    def wait_for_port(self, port: int, seconds: float = 30) -> bool:
        """Wait until the process listens on the port. False if it does not."""
        deadline = time.monotonic() + seconds
        while self.is_running() and time.monotonic() < deadline:
            if is_taken(port):
                return True
            time.sleep(0.1)
        return False

    def log_tail(self, lines: int = 15) -> str:
        self.log.seek(0)
        return "".join(self.log.readlines()[-lines:])


def is_taken(port: int) -> bool:
    """Whether something listens on the port."""
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def worker(*, seconds: float | None = None) -> ManagePy:
    until = [f"--max-time={seconds:g}s"] if seconds else []
    return ManagePy("runworker", "--no-reload", "--name=demo", "--poll=100ms", "--grace=3s", *until)


def web_server(port: int) -> ManagePy:
    return ManagePy("runserver", "--noreload", f"127.0.0.1:{port}")
