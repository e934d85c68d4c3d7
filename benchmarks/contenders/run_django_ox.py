"""django-ox, one task at a time in each process; so as many of them as real tasks shall run at once."""

from __future__ import annotations

import django_site
import verbs


def bulk(count: int) -> None:
    from django_ox.bulk import enqueue_many
    from site_tasks import noop

    size = min(count, 1000)
    verbs.timed(lambda: enqueue_many(noop, [((n,), {}) for n in range(size)]), count // size)


if __name__ == "__main__":
    django_site.main("django_ox", "django_ox.backend.OxBackend", "ox_worker", bulk)
