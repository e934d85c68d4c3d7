"""The tasks that are measured."""

from __future__ import annotations

import time

import verbs  # in the folder of the contenders' scripts, which stands on the path of each

from django_tasks_retry.compat import task


@task
def noop(number: int = 0) -> None:
    """Nothing: what remains is the queue."""


@task
def stamp() -> None:
    verbs.stamp()


@task
def payload(text: str) -> str:
    return text


@task
async def coroutine() -> None: ...


@task
def nap() -> None:
    """As long as a short query elsewhere."""
    time.sleep(0.01)


@task
def real(number: int) -> None:
    import real_body

    real_body.run(number)
