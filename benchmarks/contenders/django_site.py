"""A Django project, for neighbours that are Django apps. One task at a time in each process."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any
from urllib.parse import urlsplit

import django
import verbs
from django.conf import settings

DUMMY = "django.tasks.backends.dummy.DummyBackend"


def main(app: str, backend: str, worker: str, bulk: Callable[[int], None] | None = None, **worker_options: str) -> None:
    """Run the verb that the command line names. Queues without a bulk enqueue do it one by one."""
    set_up(app, backend)
    import site_tasks
    from django.core.management import call_command

    def one(count: int) -> None:
        verbs.timed(site_tasks.noop.enqueue, count)

    def real(count: int) -> None:
        import real_body

        real_body.create()
        for number in range(count):
            site_tasks.real.enqueue(number)

    verbs.main(
        {
            "setup": lambda: call_command("migrate", verbosity=0),
            "one": one,
            "bulk": bulk or one,
            "latency": lambda count: verbs.latency(site_tasks.stamp.enqueue, count),
            "loop": lambda: call_command(worker, verbosity=0, **worker_options),
            "real": real,
            "work": lambda processes, threads=1: verbs.crew(processes * threads, sys.argv[0], "loop"),
        }
    )


def set_up(app: str = "django.contrib.auth", backend: str = DUMMY, **more: Any) -> None:
    url = urlsplit(verbs.URL)
    postgresql = {
        "ENGINE": "django.db.backends.postgresql",
        "NAME": url.path.lstrip("/"),
        "USER": url.username,
        "HOST": url.hostname,
        "PORT": url.port,
        "CONN_MAX_AGE": None,
    }
    sqlite = {
        "ENGINE": "django.db.backends.sqlite3",
        "NAME": url.path,
        "OPTIONS": {"transaction_mode": "IMMEDIATE", "timeout": 20, "init_command": "PRAGMA journal_mode=WAL;"},
    }
    settings.configure(
        SECRET_KEY="benchmarks",
        USE_TZ=True,
        INSTALLED_APPS=["django.contrib.contenttypes", app],
        DATABASES={"default": sqlite if url.scheme == "sqlite" else postgresql},
        TASKS={"default": {"BACKEND": backend, "QUEUES": []}},
        LOGGING={"version": 1, "disable_existing_loggers": False, "root": {"level": "WARNING"}},
        **more,
    )
    django.setup()
