"""procrastinate: setup, enqueue <name>, work, state."""

from __future__ import annotations

import json
import os
import sys
from typing import Any

import misdeeds
import procrastinate
import psycopg

place = json.loads(os.environ["NEIGHBOUR_PLACE"])
URL = f"host={place['HOST']} port={place['PORT']} user={place['USER']} dbname={place['NAME']}"
app = procrastinate.App(connector=procrastinate.PsycopgConnector(conninfo=URL), import_paths=["site_procrastinate"])


def make(name: str) -> Any:
    @app.task(name=name)
    def function() -> Any:
        return misdeeds.do(name)

    return function


tasks = {name: make(name) for name in misdeeds.MISDEEDS if name != "gone" or misdeeds.KNOWS_GONE}


def state() -> list[tuple[str, str]]:
    with psycopg.connect(URL) as connection:
        return connection.execute("SELECT task_name, status::text FROM procrastinate_jobs").fetchall()


def main() -> None:
    verb, name = misdeeds.arguments()
    if verb == "work":
        app.run_worker()
        return
    if verb == "state":
        sys.stdout.write(json.dumps(state()))
        return
    with procrastinate.App(connector=procrastinate.SyncPsycopgConnector(conninfo=URL)).open() as producer:
        if verb == "setup":
            producer.schema_manager.apply_schema()
        else:
            producer.configure_task(name).defer()


if __name__ == "__main__":
    main()
