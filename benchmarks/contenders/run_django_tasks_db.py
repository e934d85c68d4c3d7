"""django-tasks-db, one task at a time in each process."""

from __future__ import annotations

import django_site
import verbs

if __name__ != "__main__":
    django_site.set_up("django_tasks_db", "django_tasks_db.DatabaseBackend")
    from django.core.management import call_command
    from django.tasks import task

    @task
    def noop() -> None: ...

    @task
    def stamp() -> None:
        verbs.stamp()


def setup() -> None:
    call_command("migrate", verbosity=0)


def one(count: int) -> None:
    verbs.timed(noop.enqueue, count)


def latency(count: int) -> None:
    verbs.latency(stamp.enqueue, count)


def loop() -> None:
    call_command("db_worker", queue_name="*", verbosity=0)


def work(processes: int) -> None:
    verbs.crew(processes, __file__, "loop")


if __name__ == "__main__":
    # Tasks are known by the module they come from, which must not be __main__. It knows no bulk.
    import run_django_tasks_db as site

    verbs.main(
        {
            "setup": site.setup,
            "one": site.one,
            "bulk": site.one,
            "latency": site.latency,
            "loop": site.loop,
            "work": work,
        }
    )
