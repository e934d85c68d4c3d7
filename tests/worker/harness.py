"""Real worker processes under test: started, signalled and ended for sure; and facts waited for with a deadline."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import IO, Any, TypeVar

from django.db import connections, transaction

from django_tasks_retry.models import Task, TaskEvent, Worker
from tests.pg import die_with_parent

from .warm import WarmProcess, warm_parent

ROOT = Path(__file__).parents[2]
DEADLINE = float(os.environ.get("WORKER_DEADLINE", "60"))
T = TypeVar("T")


def wait_for(fact: Callable[[], T], what: str, seconds: float = DEADLINE) -> T:
    """The fact, once it is true."""
    deadline = time.monotonic() + seconds
    while not (found := fact()):
        assert time.monotonic() < deadline, f"waited {seconds:g} s in vain: {what}"
        time.sleep(0.01)
    return found


def place_of(alias: str) -> dict[str, str]:
    """The address of the running test's database."""
    kept = ("NAME", "USER", "PASSWORD", "HOST", "PORT")
    return {name: str(connections[alias].settings_dict[name]) for name in kept}


def environment(alias: str, folder: Path, place: dict[str, str], options: dict[str, Any]) -> dict[str, str]:
    ours = {
        "DJANGO_SETTINGS_MODULE": "tests.worker.settings",
        "PYTHONPATH": str(ROOT),
        "WORKER_DATABASE": alias,
        "WORKER_PLACE": json.dumps(place),
        "WORKER_SQLITE": str(connections["default"].settings_dict["NAME"]),
        "WORKER_OPTIONS": json.dumps(options),
        "EFFECTS": str(folder / "effects"),
    }
    return {name: value for name, value in os.environ.items() if not name.startswith("PYTEST")} | ours


class WorkerProcess:
    """One `runworker` with its output in a file."""

    def __init__(
        self, arguments: tuple[str, ...], output: Path, variables: dict[str, str], *, warm: bool = False, **popen: Any
    ) -> None:
        self.output_file = output
        with output.open("wb") as log:
            self.process = forked(arguments, variables, log) if warm else started(arguments, variables, log, popen)

    @property
    def pid(self) -> int:
        return self.process.pid

    @property
    def output(self) -> str:
        return self.output_file.read_text(encoding="utf-8", errors="replace")

    def wait_for_line(self, pattern: str, seconds: float = DEADLINE) -> re.Match[str]:
        return wait_for(lambda: re.search(pattern, self.output, re.MULTILINE), f"{pattern!r} in the output", seconds)

    @property
    def row(self) -> Worker | None:
        return Worker.objects.filter(pid=self.pid).first()

    def wait_until_up(self) -> Worker:
        """Signed on, so its signal handlers are in place, and with a child."""
        row = wait_for(lambda: self.row, "the worker's row")
        wait_for(self.children, "a child")
        return row

    def children(self) -> list[int]:
        listed = Path(f"/proc/{self.pid}/task/{self.pid}/children")
        return [int(pid) for pid in listed.read_text(encoding="utf-8").split()] if listed.exists() else []

    def signal(self, number: int) -> None:
        self.process.send_signal(number)

    def signal_all(self, number: int) -> None:
        os.killpg(self.pid, number)

    def freeze(self) -> None:
        """With all its children, between their writes: a frozen process would keep SQLite's lock from everybody."""
        with transaction.atomic(using=Worker.objects.db):
            Worker.objects.filter(pid=-1).update(pid=-1)
            self.signal_all(signal.SIGSTOP)

    def exit_code(self, seconds: float = DEADLINE) -> int:
        return self.process.wait(timeout=seconds)

    def end(self) -> None:
        with suppress(ProcessLookupError):
            os.killpg(self.pid, signal.SIGKILL)
        self.process.wait(timeout=DEADLINE)


def started(
    arguments: tuple[str, ...], variables: dict[str, str], log: IO[bytes], popen: dict[str, Any]
) -> subprocess.Popen[Any]:
    """A program of its own, which imports everything: for tests of the environment that a worker starts in."""
    command = [sys.executable, "-m", "django", "runworker", *arguments]
    given = {"stdin": subprocess.DEVNULL, "stdout": log, "stderr": log} | popen
    given |= {"preexec_fn": first(die_with_parent, given.get("preexec_fn")), "start_new_session": True}
    return subprocess.Popen(command, env=variables, cwd=ROOT, **given)


def forked(arguments: tuple[str, ...], variables: dict[str, str], log: IO[bytes]) -> WarmProcess:
    with Path(os.devnull).open("rb") as nothing:
        files = [nothing.fileno(), log.fileno(), log.fileno()]
        return WarmProcess(warm_parent(), ["runworker", *arguments], variables, files)


def first(prepare: Callable[[], None], then: Callable[[], object] | None) -> Callable[[], None]:
    def both() -> None:
        prepare()
        if then:
            then()

    return both


class Effects:
    """Lines that tasks wrote into a file of their own: the tests do not take the queue's word for what has run."""

    def __init__(self, file: Path) -> None:
        self.file = file

    def lines(self) -> list[str]:
        return self.file.read_text(encoding="utf-8").splitlines() if self.file.exists() else []

    def count(self, line: str) -> int:
        return self.lines().count(line)

    def wait_for(self, line: str, times: int = 1, seconds: float = DEADLINE) -> float:
        """When it was seen, by the monotonic clock."""
        wait_for(lambda: self.count(line) >= times, f"{line!r} ×{times} in {self.lines()}", seconds)
        return time.monotonic()


def status_of(task: Task) -> str:
    return Task.objects.values_list("status", flat=True).get(pk=task.pk)


def wait_for_status(task: Task, status: str, seconds: float = DEADLINE) -> Task:
    wait_for(lambda: status_of(task) == status, f"{task} {status}", seconds)
    return Task.objects.get(pk=task.pk)


def wait_until_finished(task: Task, seconds: float = DEADLINE) -> Task:
    wait_for(lambda: Task.objects.finished().filter(pk=task.pk).exists(), f"{task} finished", seconds)
    return Task.objects.get(pk=task.pk)


def story(task: Task) -> list[str]:
    """The kinds of a task's events, without their prefix."""
    return [kind.removeprefix("task.") for kind in TaskEvent.objects.filter(task=task).values_list("kind", flat=True)]


def event_of(task: Task, kind: str) -> TaskEvent:
    return TaskEvent.objects.filter(task=task, kind=f"task.{kind}").latest("id")


def ended(workers: list[WorkerProcess]) -> Iterator[str]:
    for worker in workers:
        worker.end()
        yield f"--- {worker.process.args}\n{worker.output}"
