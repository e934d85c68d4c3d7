"""Workers forked from a process that has imported the project, so that tests do not wait for imports.

Run as a program it is the parent of these workers: it imports the project once, forks a worker for each request that
comes over its standard input, a socket, and reports how each ended.
"""

from __future__ import annotations

import importlib.util
import json
import os
import pkgutil
import selectors
import signal
import socket
import subprocess
import sys
import time
from functools import cache
from pathlib import Path
from typing import Any

from tests.pg import die_with_parent

ROOT = Path(__file__).parents[2]
REQUEST_SIZE = 1 << 20
READ_AGAIN = {"TELL_SIGNALS", "TELL_ENQUEUED", "WORKER_PLACE"}
"""Variables that a forked worker obeys. Others are read by modules that its parent has imported already."""


class WarmProcess:
    """A worker that was forked, with the methods of subprocess.Popen that tests use."""

    def __init__(self, parent: WarmParent, arguments: list[str], variables: dict[str, str], files: list[int]) -> None:
        self.parent = parent
        self.args = arguments
        self.pid = parent.fork(arguments, variables, files)

    def poll(self) -> int | None:
        return self.parent.exit_code_of(self.pid)

    def wait(self, timeout: float | None = None) -> int:
        deadline = None if timeout is None else time.monotonic() + timeout
        while (code := self.poll()) is None:
            if deadline and time.monotonic() > deadline:
                raise subprocess.TimeoutExpired(self.args, timeout or 0)
            time.sleep(0.005)
        return code

    def send_signal(self, number: int) -> None:
        if self.poll() is None:
            os.kill(self.pid, number)


class WarmParent:
    """The process that forks workers, as seen from the tests."""

    def __init__(self, variables: dict[str, str]) -> None:
        self.socket, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.socket.settimeout(60)
        self.exit_codes: dict[int, int] = {}
        self.process = subprocess.Popen(
            [sys.executable, "-m", "tests.worker.warm"],
            stdin=theirs,
            env=variables,
            cwd=ROOT,
            preexec_fn=die_with_parent,
            start_new_session=True,
        )
        theirs.close()

    def fork(self, arguments: list[str], variables: dict[str, str], files: list[int]) -> int:
        request = json.dumps({"arguments": arguments, "variables": variables}).encode()
        socket.send_fds(self.socket, [request], files)
        while "pid" not in (answer := self.receive()):
            self.note_exit(answer)
        return int(answer["pid"])

    def exit_code_of(self, pid: int) -> int | None:
        while self.has_news():
            self.note_exit(self.receive())
        return self.exit_codes.get(pid)

    def has_news(self) -> bool:
        with selectors.DefaultSelector() as selector:
            selector.register(self.socket, selectors.EVENT_READ)
            return bool(selector.select(0))

    def receive(self) -> dict[str, int]:
        answer = self.socket.recv(REQUEST_SIZE)
        assert answer, "the process that forks workers has ended"
        return dict(json.loads(answer))

    def note_exit(self, answer: dict[str, int]) -> None:
        self.exit_codes[answer["ended"]] = answer["code"]


@cache
def warm_parent() -> WarmParent:
    """One for each process of a test run. It ends with that process."""
    project = {"DJANGO_SETTINGS_MODULE": "tests.worker.settings", "PYTHONPATH": str(ROOT), "WORKER_DATABASE": "default"}
    unset = {"WORKER_PLACE": "{}", "WORKER_SQLITE": "none", "WORKER_OPTIONS": "{}", "EFFECTS": os.devnull}
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST")}
    return WarmParent(inherited | project | unset)


def dismiss_parent() -> None:
    if warm_parent.cache_info().currsize:
        parent = warm_parent()
        parent.socket.close()
        parent.process.wait(timeout=60)


# In the process that forks


class Forker:
    """Serves requests until the tests close their end."""

    def __init__(self) -> None:
        self.socket = socket.socket(fileno=os.dup(0))
        self.selector = selectors.DefaultSelector()
        self.selector.register(self.socket, selectors.EVENT_READ)

    def serve(self) -> dict[str, Any] | None:
        """Return the request in the process that is to become its worker, and None at the end."""
        while True:
            for key, _ in self.selector.select():
                if key.data is not None:
                    self.report_exit(key.fd, key.data)
                    continue
                message, files, *_ = socket.recv_fds(self.socket, REQUEST_SIZE, 3)
                if not message:
                    return None
                if not (pid := os.fork()):
                    self.become(files)
                    return dict(json.loads(message))
                for file in files:
                    os.close(file)
                self.selector.register(os.pidfd_open(pid), selectors.EVENT_READ, pid)
                self.socket.send(json.dumps({"pid": pid}).encode())

    def report_exit(self, pidfd: int, pid: int) -> None:
        self.selector.unregister(pidfd)
        os.close(pidfd)
        code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        self.socket.send(json.dumps({"ended": pid, "code": code}).encode())

    def become(self, files: list[int]) -> None:
        """Leave the parent's files, session and process group, as a program that was started does."""
        pidfds = [key.fd for key in self.selector.get_map().values() if key.data is not None]
        self.selector.close()
        self.socket.close()
        for file, number in zip(files, (0, 1, 2), strict=True):
            os.dup2(file, number)
            os.close(file)
        for pidfd in pidfds:
            os.close(pidfd)
        os.setsid()
        die_with_parent()


def warm_up() -> None:
    """Import what a worker imports."""
    import django

    django.setup()
    from django.db.migrations.loader import MigrationLoader

    from django_tasks_retry import worker
    from django_tasks_retry.worker.supervisor.heartbeat import installed_versions

    ours = [module.name for module in pkgutil.walk_packages(worker.__path__, "django_tasks_retry.worker.")]
    engines = [f"django.db.backends.{vendor}.base" for vendor in ("postgresql", "sqlite3")]
    for module in ("django_tasks_retry.management.commands.runworker", "tests.worker.tasks", *engines, *ours):
        importlib.import_module(module)
    MigrationLoader(None)
    installed_versions()


def read_settings_again() -> None:
    """Give the project the settings of this worker, which its environment holds."""
    from django.conf import settings
    from django.core.signals import setting_changed
    from django.db import connections

    importlib.reload(sys.modules["tests.settings"])
    ours = importlib.reload(sys.modules["tests.worker.settings"])
    for name in filter(str.isupper, dir(ours)):
        setattr(settings, name, getattr(ours, name))
    for alias in connections:
        if hasattr(connections._connections, alias):
            del connections[alias]
    connections.__dict__.pop("settings", None)
    connections._settings = None
    setting_changed.send(sender=None, setting="TASKS", value=settings.TASKS, enter=True)


def main() -> None:
    warm_up()
    request = Forker().serve()
    if request is None:
        return
    os.environ.clear()
    os.environ.update(request["variables"])
    sys.path[:] = [entry for entry in sys.path if entry != ""]
    signal.signal(signal.SIGINT, signal.default_int_handler)
    read_settings_again()
    importlib.reload(sys.modules["tests.worker.tasks.receivers"])
    sys.argv = ["django", *request["arguments"]]
    sys.modules["__main__"].__spec__ = importlib.util.find_spec(
        "django.__main__"
    )  # by which a worker starts itself again
    from django.core.management import execute_from_command_line

    execute_from_command_line(sys.argv)


if __name__ == "__main__":
    main()
