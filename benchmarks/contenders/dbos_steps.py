"""The cost of a step of DBOS: `python dbos_steps.py URL COUNT`, in an environment that has dbos."""

from __future__ import annotations

import sys
import time

from dbos import DBOS

url, count = sys.argv[1].replace("postgresql://", "postgresql+psycopg://"), int(sys.argv[2])
DBOS(config={"name": "steps", "system_database_url": url, "run_admin_server": False})


@DBOS.step()
def noop(number: int) -> int:
    return number


@DBOS.workflow()
def steps(wanted: int) -> float:
    began = time.perf_counter()
    for number in range(wanted):
        noop(number)
    return time.perf_counter() - began


@DBOS.workflow()
def empty(number: int) -> int:
    return number


def main() -> None:
    DBOS.launch()
    seconds = steps(count)
    print(f"  {'a step of DBOS':<40} {seconds:8.1f} s {seconds / count * 1e6:10.0f} µs each")
    began = time.perf_counter()
    for number in range(count):
        empty(number)
    seconds = time.perf_counter() - began
    print(f"  {'a workflow of DBOS without a step':<40} {seconds:8.1f} s {seconds / count * 1e6:10.0f} µs each")
    DBOS.destroy()


if __name__ == "__main__":
    main()
