"""Oban: setup, enqueue <name>, work, state."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from typing import Any

import misdeeds
import psycopg
from oban import Oban, schema, worker

place = json.loads(os.environ["NEIGHBOUR_PLACE"])
URL = f"postgresql://{place['USER']}@{place['HOST']}:{place['PORT']}/{place['NAME']}"


def make(name: str) -> Any:
    async def process(self: Any, job: Any) -> Any:
        return misdeeds.do(name)

    return worker(queue="default")(type(name, (), {"__module__": "site_oban", "process": process}))


for each in misdeeds.MISDEEDS:
    if each != "gone" or misdeeds.KNOWS_GONE:
        globals()[each] = make(each)


def state() -> list[tuple[str, str]]:
    with psycopg.connect(URL) as connection:
        rows = connection.execute("SELECT worker, state::text FROM oban_jobs").fetchall()
    return [(path.rpartition(".")[2], status) for path, status in rows]


async def produce(verb: str, name: str) -> None:
    pool = await Oban.create_pool(URL)
    if verb == "setup":
        await schema.install(pool)
    else:
        await Oban(pool=pool, queues={}).enqueue(globals()[name].new({}))
    await pool.close()


def main() -> None:
    verb, name = misdeeds.arguments()
    if verb == "work":
        from oban.cli import main as oban

        oban(["start", "--dsn", URL, "--queues", "default:10"])
    elif verb == "state":
        sys.stdout.write(json.dumps(state()))
    else:
        asyncio.run(produce(verb, name))


if __name__ == "__main__":
    main()
