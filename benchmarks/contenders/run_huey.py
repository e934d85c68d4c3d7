"""huey in Redis, with threads and without results."""

from __future__ import annotations

import os
import sys

import django_site
import verbs

django_site.set_up(
    "huey.contrib.djhuey",
    HUEY={
        "huey_class": "huey.RedisHuey",
        "name": "real",
        "results": False,
        "immediate": False,
        "connection": {"url": os.environ["BENCHMARK_REDIS"]},
    },
)


def real(count: int) -> None:
    import huey_tasks
    import real_body

    real_body.create()
    for number in range(count):
        huey_tasks.real(number)


def loop(threads: int) -> None:
    import huey_tasks  # noqa: F401 - registers the task
    from django.core.management import call_command

    call_command("run_huey", workers=threads, worker_type="thread")


if __name__ == "__main__":
    verbs.main(
        {
            "setup": lambda: None,
            "real": real,
            "loop": loop,
            "work": lambda processes, threads: verbs.crew(processes, sys.argv[0], "loop", str(threads)),
        }
    )
