"""procrastinate, with asynchronous workers."""

from __future__ import annotations

import procrastinate
import verbs

app = procrastinate.App(
    connector=procrastinate.PsycopgConnector(conninfo=verbs.URL), import_paths=["run_procrastinate"]
)


@app.task(name="noop")
async def noop() -> None: ...


@app.task(name="stamp")
async def stamp() -> None:
    verbs.stamp()


async def setup() -> None:
    async with app.open_async():
        await app.schema_manager.apply_schema_async()


async def one(count: int) -> None:
    async with app.open_async():
        await verbs.timed_async(noop.defer_async, count)


async def bulk(count: int) -> None:
    async with app.open_async():
        await verbs.timed_async(lambda: noop.batch_defer_async(*[{}] * 1000), count // 1000 or 1)


async def keyed(count: int, keys: int, prefix: str) -> None:
    """Locks: of those with the same, one runs at a time."""
    async with app.open_async():
        for n in range(count):
            await noop.configure(lock=f"{prefix}-{n % keys}").defer_async()


async def latency(count: int) -> None:
    async with app.open_async():
        await verbs.latency_async(stamp.defer_async, count)


def work(processes: int) -> None:
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
        "30",
    )


if __name__ == "__main__":
    verbs.main({"setup": setup, "one": one, "bulk": bulk, "keyed": keyed, "latency": latency, "work": work})
