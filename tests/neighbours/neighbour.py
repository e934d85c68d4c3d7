"""A queue under test: an environment of its own, a worker process, and what can be asked about it."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from django_tasks_retry import __version__
from tests.conformance.sdist import cache_folder
from tests.legs import find_interpreter
from tests.pg import die_with_parent

HERE = Path(__file__).parent
ROOT = HERE.parents[1]


@dataclass(frozen=True, slots=True)
class Neighbour:
    name: str
    script: str
    packages: tuple[str, ...] = ()
    app: tuple[Any, ...] = ()
    stores_results: bool = True
    on: str = "PostgreSQL"

    @property
    def title(self) -> str:
        return f"{self.name} {self.version()}" + (f", {self.on}" if not self.packages else "")

    def python(self) -> str:
        """Of an environment of its own; ours is the one that we run in."""
        if not self.packages:
            return sys.executable
        home = cache_folder() / "neighbours" / self.name
        if not (home / "ready").exists():
            shutil.rmtree(home, ignore_errors=True)
            subprocess.run([newest_python(), "-m", "venv", str(home)], check=True)
            pip = [str(home / "bin" / "pip"), "install", "-q", "--disable-pip-version-check"]
            subprocess.run([*pip, "psycopg[binary,pool]", *self.packages], check=True)
            (home / "ready").touch()
        return str(home / "bin" / "python")

    def version(self) -> str:
        if not self.packages:
            return __version__
        ask = "import importlib.metadata as m, sys; sys.stdout.write(m.version(sys.argv[1]))"
        return subprocess.run([self.python(), "-c", ask, self.name], capture_output=True, text=True, check=False).stdout


def newest_python() -> str:
    """Django 6, which some need, needs Python 3.12."""
    return str(find_interpreter("3.13") or find_interpreter("3.12") or sys.executable)


class House:
    """One neighbour on one database, with its notes."""

    def __init__(self, neighbour: Neighbour, place: dict[str, Any], folder: Path) -> None:
        self.neighbour, self.notes_file, self.log = neighbour, folder / "notes", folder / "log"
        self.variables = {
            **{name: value for name, value in os.environ.items() if name != "DJANGO_SETTINGS_MODULE"},
            "NEIGHBOUR_PLACE": json.dumps(place),
            "NEIGHBOUR_NOTES": str(self.notes_file),
            "NEIGHBOUR_APP": json.dumps(neighbour.app),
            "PYTHONPATH": os.pathsep.join([str(HERE), *([] if neighbour.packages else [str(ROOT)])]),
        }

    def command(self, *words: str) -> list[str]:
        return [self.neighbour.python(), str(HERE / self.neighbour.script), *words]

    def tell(self, *words: str) -> str:
        done = subprocess.run(self.command(*words), env=self.variables, capture_output=True, text=True, check=False)
        if done.returncode:
            raise RuntimeError(f"{self.neighbour.name} {' '.join(words)}:\n{done.stderr[-2000:]}")
        return done.stdout

    def status(self, name: str) -> str:
        return dict(json.loads(self.tell("state"))).get(name, "nowhere")

    def notes(self) -> list[str]:
        return self.notes_file.read_text(encoding="utf-8").splitlines() if self.notes_file.exists() else []

    @contextmanager
    def working(self, **variables: str) -> Iterator[subprocess.Popen[bytes]]:
        with self.log.open("ab") as log:
            worker = subprocess.Popen(
                self.command("work"), env=self.variables | variables, stdout=log, stderr=log,
                start_new_session=True, preexec_fn=die_with_parent,
            )  # fmt: skip
        try:
            yield worker
        finally:
            with suppress(ProcessLookupError):
                os.killpg(worker.pid, signal.SIGKILL)
            worker.wait()


def waited(fact: Callable[[], Any], seconds: float) -> bool:
    """Whether the fact came true in time."""
    deadline = time.monotonic() + seconds
    while not fact():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.1)
    return True


OURS = ("django_tasks_retry", "django_tasks_retry.backend.RetryBackend", ("runworker",))
NEIGHBOURS = [
    Neighbour("django-tasks-retry", "site_django.py", app=OURS),
    Neighbour("django-tasks-retry", "site_django.py", app=OURS, on="SQLite"),
    Neighbour(
        "django-tasks-db",
        "site_django.py",
        ("django-tasks-db", "Django>=6"),
        ("django_tasks_db", "django_tasks_db.DatabaseBackend", ("db_worker", "--queue-name", "*")),
    ),
    Neighbour(
        "steady-queue",
        "site_django.py",
        ("steady-queue", "Django>=6"),
        ("steady_queue", "steady_queue.backend.SteadyQueueBackend", ("steady_queue",)),
        stores_results=False,
    ),
    Neighbour("procrastinate", "site_procrastinate.py", ("procrastinate",), stores_results=False),
    Neighbour("oban", "site_oban.py", ("oban",), stores_results=False),
]
