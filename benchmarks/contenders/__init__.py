"""Those who are measured. Each speaks through a script of its own, run by the Python of its own environment.

A script knows these verbs: `setup`; `one N` and `bulk N`, which enqueue N no-ops one by one or at once and tell the
seconds; `latency N`, which enqueues N tasks with pauses and tells when each call returned; `work P`, which runs P
processes until they are ended.
"""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import venv
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.pg import die_with_parent

HERE = Path(__file__).parent
VERSIONS = """
import json, platform, sys
from importlib.metadata import distributions
found = {each.name: each.version for each in distributions()}
print(json.dumps({"Python": platform.python_version()} | {name: found[name] for name in sys.argv[1:] if name in found}))
"""
CACHE = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "django-tasks-retry-benchmarks"


@dataclass(frozen=True)
class Contender:
    name: str
    unfinished: str
    """The table and the condition of tasks that are not final yet."""
    packages: tuple[str, ...] = ()
    """Requirements of its environment; ours is the one that we run in."""
    knows_sqlite: bool = False

    @property
    def left(self) -> str:
        """Asks the database how many are not final yet."""
        return f"SELECT count(*) FROM {self.unfinished}"

    @property
    def any_left(self) -> str:
        """Asks whether any is, 1 or 0: the newest are done last, so that this costs next to nothing until the end."""
        return f"SELECT count(*) FROM (SELECT 1 FROM {self.unfinished} ORDER BY id DESC LIMIT 1) AS newest"

    @property
    def script(self) -> Path:
        return HERE / f"run_{self.home.replace('-', '_')}.py"

    @property
    def home(self) -> str:
        """Return the name of its script and environment, which it shares with its tuned self."""
        return self.name.removesuffix("-tuned")

    def python(self) -> str:
        if not self.packages:
            return sys.executable
        home = CACHE / self.home
        if not (home / "ready").exists():
            venv.create(home, with_pip=True, clear=True)
            pip = [str(home / "bin" / "pip"), "install", "-q", "--disable-pip-version-check"]
            subprocess.run([*pip, "psycopg[binary,pool]", *self.packages], check=True)
            (home / "ready").touch()
        return str(home / "bin" / "python")

    def versions(self) -> dict[str, str]:
        """Return the versions of Python and of the packages that it runs with."""
        named = [re.split(r"[^\w-]", requirement)[0] for requirement in (*self.packages, "Django", "psycopg")]
        told = subprocess.run([self.python(), "-c", VERSIONS, *named], check=True, stdout=subprocess.PIPE, text=True)
        return dict(json.loads(told.stdout))

    def command(self, verb: str, *arguments: object) -> list[str]:
        return [self.python(), str(self.script), verb, *map(str, arguments)]

    def environment(self, url: str) -> dict[str, str]:
        stamps = CACHE / "stamps"
        paths = [str(HERE), *([] if self.packages else [str(HERE.parent.parent)])]
        return {
            **os.environ,
            "BENCHMARK_DATABASE": url,
            "BENCHMARK_STAMPS": str(stamps),
            "BENCHMARK_TUNED": "1" if self.home != self.name else "",
            "PYTHONPATH": os.pathsep.join(paths),
        }

    def tell(self, url: str, verb: str, *arguments: object) -> Any:
        """Run a verb to its end; what it told, if anything."""
        done = subprocess.run(
            self.command(verb, *arguments), env=self.environment(url), check=True, stdout=subprocess.PIPE, text=True
        )
        return json.loads(done.stdout) if done.stdout.strip() else None

    @contextmanager
    def working(self, url: str, processes: int, *options: int) -> Iterator[int]:
        """While its worker runs; the id of its process."""
        worker = subprocess.Popen(
            self.command("work", processes, *options),
            env=self.environment(url),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
            preexec_fn=die_with_parent,
        )
        try:
            yield worker.pid
        finally:
            worker.terminate()
            with suppress(subprocess.TimeoutExpired):
                worker.wait(timeout=15)
            with suppress(ProcessLookupError):
                os.killpg(worker.pid, signal.SIGKILL)
            worker.wait()


OURS = Contender(
    "django-tasks-retry",
    # A crowd of other tasks has older ids, and counting it would cost more than the drain.
    "django_tasks_retry_task WHERE id > '01910000-0000-0000-0000-000000000000' AND status IN ('PENDING', 'RUNNING')",
    knows_sqlite=True,
)
CEILING = Contender("ceiling", "task WHERE status IN ('PENDING', 'RUNNING')")
NO_QUEUE = Contender("no-queue", "")
# In Redis, without persistence, so that they lose their queue with the server: measured at real tasks only.
BROKERS = [
    Contender("huey", "", ("huey", "redis", "Django>=6")),
    Contender("dramatiq", "", ("dramatiq[redis]", "django-dramatiq", "Django>=6")),
    Contender("celery", "", ("celery[redis]", "Django>=6")),
    Contender("celery-tuned", "", ("celery[redis]", "Django>=6")),
]
PEERS = [
    Contender(
        "django-tasks-db",
        "django_tasks_database_dbtaskresult WHERE status IN ('READY', 'RUNNING')",
        ("django-tasks-db", "Django>=6"),
        knows_sqlite=True,
    ),
    Contender(
        "procrastinate",
        "procrastinate_jobs WHERE status IN ('todo', 'doing')",
        ("procrastinate", "Django>=6"),
    ),
    Contender("pgqueuer", "pgqueuer", ("pgqueuer", "typer<0.22", "Django>=6")),
    Contender("oban", "oban_jobs WHERE state NOT IN ('completed', 'discarded')", ("oban",)),
    Contender(
        "django-ox",
        "django_ox_oxtask WHERE status IN ('READY', 'RUNNING')",
        ("django-ox", "Django>=6"),
    ),
]
