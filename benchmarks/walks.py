"""Count the functions and files of the package that one step of a task walks through: `python -m benchmarks.walks`.

A file switch is two calls in a row that stand in different files: the jumps of a reader who follows the code.
Threads, receivers of signals and SQL functions are not counted.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = f"{ROOT / 'django_tasks_retry'}{os.sep}"
GENERATED = ("<lambda>", "<genexpr>", "<listcomp>", "<dictcomp>", "<setcomp>")
HEAD = f"{'database':12}{'step':20}{'calls':>7}{'functions':>11}{'files':>7}{'switches':>10}{'SQL':>5}"


class Walk:
    """The calls of functions of the package while it is entered."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, str]] = []

    def note(self, frame: FrameType, event: str, _: Any) -> None:
        code = frame.f_code
        if event == "call" and code.co_filename.startswith(PACKAGE) and code.co_name not in GENERATED:
            self.calls.append((code.co_filename, code.co_qualname))

    def __enter__(self) -> Walk:
        sys.setprofile(self.note)
        return self

    def __exit__(self, *_: object) -> None:
        sys.setprofile(None)

    @property
    def files(self) -> list[str]:
        return [name for name, _ in self.calls]

    @property
    def switches(self) -> int:
        return sum(one != other for one, other in zip(self.files, self.files[1:], strict=False))


def measure(step: str, act: Callable[[], Any]) -> Any:
    """Act, and print the figures; with `--list`, also the functions in the order of their calls."""
    from django.db import connection
    from django.test.utils import CaptureQueriesContext

    with CaptureQueriesContext(connection) as statements, Walk() as walk:
        answer = act()
    functions, files = len(set(walk.calls)), len(set(walk.files))
    figures = f"{len(walk.calls):7}{functions:11}{files:7}{walk.switches:10}{len(statements):5}"
    print(f"{connection.vendor:12}{step:20}{figures}", flush=True)
    if "--list" in sys.argv:
        print(*(f"    {name.removeprefix(PACKAGE)} {function}" for name, function in walk.calls), sep="\n", flush=True)
    return answer


def walk_all() -> None:
    """One task after another through each step. The first of each is not counted: it fills the caches."""
    import django

    django.setup()
    from django.core.management import call_command

    from benchmarks import tasks
    from django_tasks_retry import taskqueue
    from django_tasks_retry.models import Task

    call_command("migrate", verbosity=0)

    def finish(leases: list[taskqueue.Lease]) -> None:
        for lease in leases:
            taskqueue.complete_task(lease)

    def claim() -> list[taskqueue.Lease]:
        return taskqueue.claim("walks")

    def in_lane() -> Task:
        return Task.objects.enqueue(tasks.payload, ["text"], lane="limited-1")

    for enqueue in (lambda: tasks.payload.enqueue("text"), in_lane, in_lane):
        enqueue()
        finish(claim())
    measure("enqueue", lambda: tasks.payload.enqueue("text"))
    leases = measure("claim, plain", claim)
    measure("finish", lambda: finish(leases))
    measure("enqueue in a lane", in_lane)
    finish(measure("claim, limited lane", claim))


def main() -> None:
    from .server import Server

    print(HEAD, flush=True)
    with tempfile.TemporaryDirectory() as folder, Server() as server:
        for url in (server.fresh("walks"), f"sqlite://{folder}/walks.sqlite3"):
            path = os.pathsep.join([str(ROOT), str(ROOT / "benchmarks" / "contenders")])
            place = {"BENCHMARK_DATABASE": url, "DJANGO_SETTINGS_MODULE": "benchmarks.settings", "PYTHONPATH": path}
            command = [sys.executable, __file__, "walk", *sys.argv[1:]]
            subprocess.run(command, check=True, cwd=ROOT, env={**os.environ, **place})


if __name__ == "__main__":
    walk_all() if "walk" in sys.argv else main()
