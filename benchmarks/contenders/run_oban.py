"""oban for Python, a hundred at once in each process."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import oban
import verbs
from oban.schema import install


@oban.worker()
class Noop:
    async def process(self, job: oban.Job) -> None: ...


@oban.worker()
class Stamp:
    async def process(self, job: oban.Job) -> None:
        verbs.stamp()


@asynccontextmanager
async def client(**options: object) -> AsyncIterator[oban.Oban]:
    pool = await oban.Oban.create_pool(verbs.URL)
    async with oban.Oban(pool=pool, **options) as instance:
        yield instance
    await pool.close()


async def setup() -> None:
    pool = await oban.Oban.create_pool(verbs.URL)
    await install(pool)
    await pool.close()


async def one(count: int) -> None:
    async with client() as instance:
        await verbs.timed_async(lambda: instance.enqueue(Noop.new({})), count)


async def bulk(count: int) -> None:
    size = min(count, 1000)
    async with client() as instance:
        await verbs.timed_async(
            lambda: instance.enqueue_many([Noop.new({"number": n}) for n in range(size)]), count // size
        )


async def latency(count: int) -> None:
    async with client() as instance:
        await verbs.latency_async(lambda: instance.enqueue(Stamp.new({})), count)


async def loop() -> None:
    async with client(queues={"default": 100}):
        await asyncio.Event().wait()


def work(processes: int) -> None:
    verbs.crew(processes, __file__, "loop")


if __name__ == "__main__":
    # Workers are known by the module they come from, which must not be __main__.
    import run_oban

    verbs.main({name: getattr(run_oban, name) for name in ("setup", "one", "bulk", "latency", "loop", "work")})
