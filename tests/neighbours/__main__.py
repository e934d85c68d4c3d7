"""`python -m tests.neighbours [name …] [--write]`: eight ways for a task to go wrong, each queue as it is by default.

After each the worker must still run the next task, and no row may stay behind as if it were still being worked on.
A worker that died is started again once, as any process manager would do.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg

from tests.neighbours.neighbour import NEIGHBOURS, House, Neighbour, waited
from tests.pg import PgCluster, version

ROWS = {
    "error_with_nul": "exception text with NUL",
    "error_with_surrogate": "exception text with a lone surrogate",
    "sys_exit": "`sys.exit(3)`",
    "keyboard_interrupt": "`KeyboardInterrupt` raised",
    "os_exit": "`os._exit(3)`",
    "gone": "function no longer there",
    "result_with_nul": "result with NUL",
    "hang": "worker killed, another started",
}
SQLITE = {"transaction_mode": "IMMEDIATE", "init_command": "PRAGMA journal_mode=WAL;"}
STUCK = {"RUNNING", "doing", "executing", "claimed"}
NOT_FOR_IT = "stores no results"
PATIENCE = 75.0
SOON = 15.0
PAGE = Path(__file__).parents[2] / "docs" / "neighbours.json"


def main(wanted: list[str]) -> int:
    """Every cell, as it is known; and with --write, into the documentation."""
    neighbours = [one for one in NEIGHBOURS if one.name in wanted or not set(wanted) - {"--write"}]
    cluster = PgCluster(version())
    try:
        cluster.initdb()
        cluster.start()
        titles = [one.title for one in neighbours]
        say(row("fault", titles) + "\n" + "|---" * (len(titles) + 1) + "|")
        table = {
            words: shown(words, [cell(one, fault, cluster) for one in neighbours]) for fault, words in ROWS.items()
        }
    finally:
        cluster.remove()
    passed = [counted([cells[n] for cells in table.values()]) for n in range(len(titles))]
    shown("passed", passed)
    if "--write" in wanted:
        told = {"titles": titles, "rows": table, "passed": passed}
        PAGE.write_text(f"{json.dumps(told, indent=1, ensure_ascii=False)}\n")
    return 0


def counted(cells: list[str]) -> str:
    return f"{sum(cell.endswith('✓') for cell in cells)} of {sum(cell != NOT_FOR_IT for cell in cells)}"


def row(words: str, cells: list[str]) -> str:
    return "| " + " | ".join([words, *cells]) + " |"


def shown(words: str, cells: list[str]) -> list[str]:
    say(row(words, cells))
    return cells


def cell(neighbour: Neighbour, fault: str, cluster: PgCluster) -> str:
    if fault == "result_with_nul" and not neighbour.stores_results:
        return NOT_FOR_IT
    with tempfile.TemporaryDirectory() as folder:
        house = House(neighbour, place_for(neighbour, fault, cluster, Path(folder)), Path(folder))
        house.tell("setup")
        return after_a_kill(house) if fault == "hang" else after_a_fault(house, fault)


def place_for(neighbour: Neighbour, fault: str, cluster: PgCluster, folder: Path) -> dict[str, Any]:
    """A database that nobody has used."""
    if neighbour.on == "SQLite":
        return {"ENGINE": "django.db.backends.sqlite3", "NAME": str(folder / "db.sqlite3"), "OPTIONS": SQLITE}
    name = f"{neighbour.name}_{fault}".replace("-", "_")
    server = f"host=127.0.0.1 port={cluster.port} user=postgres dbname=postgres"
    with psycopg.connect(server, autocommit=True) as admin:
        admin.execute(f"CREATE DATABASE {name}")
    where = {"HOST": "127.0.0.1", "PORT": str(cluster.port), "USER": "postgres", "NAME": name}
    return {"ENGINE": "django.db.backends.postgresql", **where}


def after_a_fault(house: House, fault: str) -> str:
    house.tell("enqueue", fault)
    forgets = {"NEIGHBOUR_FORGETS": "1"} if fault == "gone" else {}
    with house.working(**forgets) as worker:
        begun = fault == "gone" or waited(lambda: f"begin {fault}" in house.notes(), SOON)
        house.tell("enqueue", "canary")
        ran = waited(lambda: worker.poll() is not None or "end canary" in house.notes(), SOON)
        died = worker.poll() is not None
        ran = ran and not died
        settled = waited(lambda: house.status(fault) not in STUCK, 5)
    if died:
        with house.working(**forgets):
            settled = waited(lambda: house.status(fault) not in STUCK, SOON)
    return told(house.status(fault), list(complaints(begun=begun, died=died, ran=ran, settled=settled)))


def complaints(*, begun: bool, died: bool, ran: bool, settled: bool) -> Iterator[str]:
    if not begun:
        yield "did not begin"
    if died:
        yield "worker dies"
    elif not ran:
        yield "next task does not run"
    if not settled:
        yield "row stays"


WORDS = {
    "PENDING": "to be tried again",
    "retryable": "to be tried again",
    "READY": "left waiting",
    "todo": "left waiting",
    "ready": "left waiting",
    "available": "left waiting",
}


def told(status: str, wrong: list[str]) -> str:
    status = WORDS.get(status, status.lower())
    return f"{', '.join(wrong)}: {status}" if wrong else f"{status} ✓"


def after_a_kill(house: House) -> str:
    house.tell("enqueue", "hang")
    with house.working() as worker:
        if not waited(lambda: "begin hang" in house.notes(), SOON):
            return "did not begin"
        os.killpg(worker.pid, signal.SIGKILL)
        worker.wait()
    with house.working():
        again = waited(lambda: house.notes().count("begin hang") > 1, PATIENCE)
        return "run again ✓" if again else f"not run again in {PATIENCE:g} s: {house.status('hang')}"


def say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
