"""django-ox, one task at a time in each process."""

from __future__ import annotations

import django_site
import verbs

if __name__ != "__main__":
    django_site.set_up("django_ox", "django_ox.backend.OxBackend")
    from django.core.management import call_command
    from django.tasks import task
    from django_ox.bulk import enqueue_many

    @task
    def noop() -> None: ...

    @task
    def stamp() -> None:
        verbs.stamp()


def setup() -> None:
    call_command("migrate", verbosity=0)


def one(count: int) -> None:
    verbs.timed(noop.enqueue, count)


def bulk(count: int) -> None:
    size = min(count, 1000)
    verbs.timed(lambda: enqueue_many(noop, [((), {})] * size), count // size)


def latency(count: int) -> None:
    verbs.latency(stamp.enqueue, count)


def loop() -> None:
    call_command("ox_worker", verbosity=0)


def work(processes: int) -> None:
    verbs.crew(processes, __file__, "loop")


if __name__ == "__main__":
    # Tasks are known by the module they come from, which must not be __main__.
    import run_django_ox as site

    verbs.main({name: getattr(site, name) for name in ("setup", "one", "bulk", "latency", "loop", "work")})
