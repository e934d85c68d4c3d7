"""The tasks of neighbours that are Django apps. Tasks are known by their module, which must not be __main__."""

from __future__ import annotations

import verbs
from django.tasks import task


@task
def noop(number: int = 0) -> None: ...


@task
def stamp() -> None:
    verbs.stamp()


@task
def real(number: int) -> None:
    import real_body

    real_body.run(number)
