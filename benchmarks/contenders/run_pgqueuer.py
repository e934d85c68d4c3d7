"""pgqueuer, with batches of a hundred."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import psycopg
import verbs
from pgqueuer import Job, PgQueuer, PsycopgDriver, Queries


@asynccontextmanager
async def queries() -> AsyncIterator[Queries]:
    async with await psycopg.AsyncConnection.connect(verbs.URL, autocommit=True) as connection:
        yield Queries(PsycopgDriver(connection))


@asynccontextmanager
async def worker() -> AsyncIterator[PgQueuer]:
    async with await psycopg.AsyncConnection.connect(verbs.URL, autocommit=True) as connection:
        queuer = PgQueuer(PsycopgDriver(connection))

        @queuer.entrypoint("noop")
        async def noop(job: Job) -> None: ...

        @queuer.entrypoint("stamp")
        async def stamp(job: Job) -> None:
            verbs.stamp()

        yield queuer


async def setup() -> None:
    async with queries() as asked:
        await asked.install()


async def one(count: int) -> None:
    async with queries() as asked:
        await verbs.timed_async(lambda: asked.enqueue("noop", None), count)


async def bulk(count: int) -> None:
    size = min(count, 1000)
    async with queries() as asked:
        await verbs.timed_async(lambda: asked.enqueue(["noop"] * size, [None] * size, [0] * size), count // size)


async def latency(count: int) -> None:
    async with queries() as asked:
        await verbs.latency_async(lambda: asked.enqueue("stamp", None), count)


def work(processes: int) -> None:
    os.environ["PGDSN"] = verbs.URL
    verbs.crew(
        processes, "-m", "pgqueuer", "run", "run_pgqueuer:worker", "--batch-size", "100", "--log-level", "WARNING"
    )


if __name__ == "__main__":
    verbs.main({"setup": setup, "one": one, "bulk": bulk, "latency": latency, "work": work})
