"""Celery in Redis, prefork, without results. As it comes it closes its connection after each task."""

from __future__ import annotations

import os

import django_site
import verbs

os.environ["DJANGO_SETTINGS_MODULE"] = "django_site"  # its name alone makes Celery look after Django's connections
django_site.set_up()
from celery import Celery  # noqa: E402 - after the settings

app = Celery("real", broker=os.environ["BENCHMARK_REDIS"])
app.conf.task_ignore_result = True
if os.environ["BENCHMARK_TUNED"]:
    app.conf.CELERY_DB_REUSE_MAX = 1_000_000


@app.task(name="real")
def real_task(number: int) -> None:
    import real_body

    real_body.run(number)


def real(count: int) -> None:
    import real_body

    real_body.create()
    for number in range(count):
        real_task.delay(number)


def work(processes: int, threads: int) -> None:
    verbs.crew(processes, "-m", "celery", "-A", "run_celery", "worker", "-c", str(threads), "-l", "ERROR")


if __name__ == "__main__":
    verbs.main({"setup": lambda: None, "real": real, "work": work})
