"""pgqueuer, with batches of a hundred."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager

import django_site
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

        django_site.set_up()
        import real_body

        slots = ThreadPoolExecutor(int(os.environ.get("BENCHMARK_THREADS", "1")))

        @queuer.entrypoint("real")
        async def real(job: Job) -> None:
            await asyncio.get_running_loop().run_in_executor(slots, real_body.run, int(job.payload or b""))

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
        await verbs.timed_async(
            lambda: asked.enqueue(["noop"] * size, [b"%d" % n for n in range(size)], [0] * size), count // size
        )


async def real(count: int) -> None:
    await asyncio.to_thread(create_rows)
    async with queries() as asked:
        await asked.enqueue(["real"] * count, [b"%d" % number for number in range(count)], [0] * count)


def create_rows() -> None:
    django_site.set_up()
    import real_body

    real_body.create()


async def latency(count: int) -> None:
    async with queries() as asked:
        await verbs.latency_async(lambda: asked.enqueue("stamp", None), count)


def work(processes: int, threads: int = 1) -> None:
    os.environ |= {"PGDSN": verbs.URL, "BENCHMARK_THREADS": str(threads)}
    verbs.crew(
        processes, "-m", "pgqueuer", "run", "run_pgqueuer:worker", "--batch-size", "100", "--log-level", "WARNING"
    )


if __name__ == "__main__":
    verbs.main({"setup": setup, "one": one, "bulk": bulk, "real": real, "latency": latency, "work": work})
