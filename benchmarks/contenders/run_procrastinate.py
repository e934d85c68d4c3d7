"""procrastinate, with asynchronous workers."""

from __future__ import annotations

import asyncio
import os

import django_site
import procrastinate
import verbs

app = procrastinate.App(
    connector=procrastinate.PsycopgConnector(conninfo=verbs.URL), import_paths=["run_procrastinate"]
)


@app.task(name="noop")
async def noop(number: int = 0) -> None: ...


@app.task(name="stamp")
async def stamp() -> None:
    verbs.stamp()


@app.task(name="real")
def real_task(number: int) -> None:
    import real_body

    real_body.run(number)


async def real(count: int) -> None:
    import real_body

    await asyncio.to_thread(real_body.create)
    async with app.open_async():
        await real_task.batch_defer_async(*({"number": number} for number in range(count)))


async def setup() -> None:
    async with app.open_async():
        await app.schema_manager.apply_schema_async()


async def one(count: int) -> None:
    async with app.open_async():
        await verbs.timed_async(noop.defer_async, count)


async def bulk(count: int) -> None:
    async with app.open_async():
        await verbs.timed_async(
            lambda: noop.batch_defer_async(*({"number": n} for n in range(1000))), count // 1000 or 1
        )


async def keyed(count: int, keys: int, prefix: str) -> None:
    """Locks: of those with the same, one runs at a time."""
    async with app.open_async():
        for n in range(count):
            await noop.configure(lock=f"{prefix}-{n % keys}").defer_async()


async def latency(count: int) -> None:
    async with app.open_async():
        await verbs.latency_async(stamp.defer_async, count)


def work(processes: int, threads: int = 30) -> None:
    os.environ["PYTHON_CPU_COUNT"] = str(threads)  # else asyncio has four threads more than there are cores
    verbs.crew(
        processes,
        "-m",
        "procrastinate",
        "--log-level",
        "warning",
        "--app",
        "run_procrastinate.app",
        "worker",
        "--concurrency",
        str(threads),
    )


django_site.set_up()
if __name__ == "__main__":
    verbs.main(
        {"setup": setup, "one": one, "bulk": bulk, "keyed": keyed, "real": real, "latency": latency, "work": work}
    )
