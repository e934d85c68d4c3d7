"""Tasks whose results, exceptions, coroutines and processes are not what a worker would wish for."""

from __future__ import annotations

import asyncio
import multiprocessing
import os
import resource
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any

from django.db import connections, transaction

from django_tasks_retry import Retry, Snooze, retry
from django_tasks_retry.compat import task
from tests.router import CurrentDatabase

from .marks import gate, mark, marked


def database() -> Any:
    return connections[CurrentDatabase.current]


# What runs in which thread


class Curious(dict):  # type: ignore[type-arg]
    """Says in which thread it is looked at."""

    def items(self) -> Any:
        mark("looked at in", threading.current_thread().name)
        return super().items()

    def __iter__(self) -> Any:
        mark("looked at in", threading.current_thread().name)
        return super().__iter__()

    def __del__(self) -> None:
        mark("deleted in", threading.current_thread().name)


@task
@retry(max_attempts=1)
def return_curious() -> Any:
    return Curious(a=1)


class Talkative(Exception):
    def __str__(self) -> str:
        mark("asked for its text in", threading.current_thread().name)
        return "talkative"


@task
@retry(max_attempts=1)
def raise_talkative() -> None:
    raise Talkative


class SlowToTell(Exception):
    def __str__(self) -> str:
        while not gate("told").exists():
            time.sleep(0.005)
        return "told at last"


@task
@retry(max_attempts=1)
def raise_slow_to_tell() -> None:
    mark("begin slow")
    raise SlowToTell


class Forgetful(Retry):
    def __init__(self) -> None:
        pass


class ForgetfulSnooze(Snooze):
    def __init__(self) -> None:
        pass


class Nameless(type):
    @property
    def __name__(cls) -> str:  # type: ignore[override]
        raise RuntimeError("no name")


class OddError(Exception, metaclass=Nameless):
    pass


class OddNumber(int):
    def __int__(self) -> int:
        raise RuntimeError("no number")

    __index__ = __repr__ = __int__  # type: ignore[assignment]


class EndlessDict(dict):  # type: ignore[type-arg]
    def items(self) -> Any:
        while True:
            yield "a", 1


@task
@retry(max_attempts=1, timeout=1.0)
def end_oddly(how: str) -> Any:
    match how:
        case "retry without its fields":
            raise Forgetful
        case "snooze without its fields":
            raise ForgetfulSnooze
        case "nameless exception":
            raise OddError
        case "number that is none":
            return OddNumber(3)
        case "endless result":
            return EndlessDict(a=1)
        case "exit while it is told":
            return type("Exiting", (dict,), {"items": lambda _: sys.exit(3)})(a=1)


ODD_ENDS = (
    "retry without its fields",
    "snooze without its fields",
    "nameless exception",
    "number that is none",
    "endless result",
    "exit while it is told",
)


# Event loops

background: list[Any] = []


@task
async def exit_in_background() -> None:
    async def end_everything() -> None:
        sys.exit(3)

    asyncio.get_running_loop().call_soon(sys.exit, 4)
    background.append(asyncio.create_task(end_everything()))
    await asyncio.sleep(0.05)


@task
async def close_the_loop() -> None:
    loop = asyncio.get_running_loop()
    loop.stop()
    loop.call_later(0, lambda: None)
    threading.Timer(0.05, loop.close).start()


@task
async def cancel_the_others() -> None:
    for other in asyncio.all_tasks() - {asyncio.current_task()}:
        other.cancel()
    mark("cancelled the others")


@task
@retry(timeout=60.0)
async def hold_the_loop(name: str) -> None:
    """Until its gate is opened, without a chance for any other coroutine."""
    mark("begin", name)
    while not gate(name).exists():
        time.sleep(0.01)


@task
async def amark(name: str) -> None:
    mark(name)


# Processes


def square(number: int) -> int:
    return number * number


@task
@retry(max_attempts=1, timeout=20.0)
def use_a_pool() -> int:
    with multiprocessing.get_context("fork").Pool(2) as pool:
        return sum(pool.map(square, range(10)))


def exit_code(process: multiprocessing.process.BaseProcess) -> int | None:
    """Asked again for a moment: where two threads fork, the one may have reaped what the other waits for."""
    give_up = time.monotonic() + 10
    while process.exitcode is None and time.monotonic() < give_up:
        process.join(0.1)
        time.sleep(0.01)
    return process.exitcode


@task
@retry(max_attempts=1)
def terminate_a_process() -> int | None:
    process = multiprocessing.get_context("fork").Process(target=time.sleep, args=(600,))
    process.start()
    process.terminate()
    return exit_code(process)


@task
@retry(max_attempts=1)
def interrupt_a_process() -> int | None:
    process = multiprocessing.get_context("fork").Process(target=time.sleep, args=(600,))
    process.start()
    os.kill(process.pid or 0, signal.SIGINT)
    return exit_code(process)


def use_database_in_process() -> None:
    with database().cursor() as cursor:
        cursor.execute("SELECT 1")
    mark("used in a process of its own")


@task
@retry(max_attempts=1)
def fork_in_a_transaction() -> int | None:
    """What is forked here has the sockets of nobody, and may use a database of its own accord."""
    with transaction.atomic(using=CurrentDatabase.current):
        with database().cursor() as cursor:
            cursor.execute("SELECT 1")
        code = run_forked(use_database_in_process)
        with database().cursor() as cursor:
            cursor.execute("SELECT 1")
    return code


def run_forked(function: Callable[[], None]) -> int | None:
    """Return the exit code. A process that inherited a lock of another thread hangs: kill it, and fork again."""
    for _ in range(3):
        process = multiprocessing.get_context("fork").Process(target=function)
        process.start()
        process.join(10)
        if process.exitcode is not None:
            break
        process.kill()
    return process.exitcode


@task
@retry(max_attempts=1)
def leave_a_grandchild() -> int:
    """It outlives the task, and is nobody's child in the end."""
    program = subprocess.Popen(["sh", "-c", "sleep 0.2 & exit 0"])
    return program.wait()


# Sessions


@task
@retry(max_attempts=1)
def leave_in_session(what: str) -> None:
    database().ensure_connection()
    raw: Any = database().connection
    match what:
        case "transaction begun with the driver":
            raw.execute("BEGIN")
        case "setting made with the driver":
            raw.execute("SET statement_timeout = '7777'")
        case "setting made by a function":
            with database().cursor() as cursor:
                cursor.callproc("set_config", ["statement_timeout", "7777", False])
        case "row factory":
            from psycopg.rows import dict_row

            raw.row_factory = dict_row
        case "advisory lock":
            raw.execute("SELECT pg_advisory_lock(4711)")
        case "temporary table":
            raw.execute("CREATE TEMPORARY TABLE auth_group (id int)")
        case "execute wrapper":
            database().execute_wrappers.append(refuse)
        case "savepoint in an aborted transaction":
            raw.execute("BEGIN")
            try:
                raw.execute("SELECT 1 / 0")
            except Exception:  # noqa: BLE001 - swallowed, as users do
                mark("aborted")


def refuse(*_: Any) -> Any:
    raise RuntimeError("left by another task")


LEFT_IN_SESSION = (
    "transaction begun with the driver",
    "setting made with the driver",
    "setting made by a function",
    "row factory",
    "advisory lock",
    "temporary table",
    "execute wrapper",
    "savepoint in an aborted transaction",
)


@task
@retry(max_attempts=1)
def look_at_session() -> list[Any]:
    with database().cursor() as cursor:
        cursor.execute("SHOW statement_timeout")
        [timeout] = cursor.fetchone()
        cursor.execute("SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND pid <> 0")
        [locks] = cursor.fetchone()
        cursor.execute("SELECT count(name) FROM auth_group")
        cursor.execute("SELECT now() = statement_timestamp()")
        [is_alone] = cursor.fetchone()
    return [timeout, locks, is_alone]


# Threads that are made at import


class Workshop:
    threads = ThreadPoolExecutor(1)


if "POOL_AT_IMPORT" in os.environ:
    Workshop.threads.submit(square, 1).result()  # its thread stays behind, in the supervisor


@task
@retry(max_attempts=1, timeout=5.0)
def use_workshop(number: int) -> int:
    return Workshop.threads.submit(square, number).result()


@task
@retry(max_attempts=1)
def hang_the_main_thread() -> None:
    """As a write to a pipe that nobody reads would, in the one thread that records outcomes. Once."""
    from django_tasks_retry.worker.child.outbox import Outbox

    def hang(*_: Any) -> None:
        mark("main thread hangs")
        time.sleep(3600)

    mark("begin to hang")
    if marked("begin to hang") > 1:
        return
    Outbox.write = hang  # type: ignore[method-assign,assignment]
    while not gate("never").exists():
        time.sleep(0.01)


def overwrite_descriptors() -> None:
    nowhere = os.open(os.devnull, os.O_RDWR)
    for number in range(3, 100):
        if number != nowhere:
            with suppress(OSError):
                os.fstat(number)
                os.dup2(nowhere, number)


def limit_for_good() -> None:
    """As for a process without privileges, which cannot raise a hard limit again."""
    resource.setrlimit(resource.RLIMIT_NOFILE, (5, 5))
    resource.setrlimit = refuse  # type: ignore[assignment]


CRIPPLES: dict[str, Callable[[], Any]] = {
    "no new files": lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (5, 5)),
    "no writes to files": lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0)),
    "descriptors overwritten": overwrite_descriptors,
    "descriptors closed": lambda: os.closerange(3, 100),
    "no new files for good": limit_for_good,
}


@task
@retry(max_attempts=2)
def cripple(how: str) -> None:
    """Leave the process unable to work, and return as if nothing had happened."""
    mark("cripple")
    CRIPPLES[how]()


@task
def read_prepared_session() -> str:
    """Return what the project has set its session to."""
    sql = {"postgresql": "SELECT current_setting('app.tenant', true)", "sqlite": "PRAGMA cache_size"}
    with database().cursor() as cursor:
        cursor.execute(sql[database().vendor])
        return str(cursor.fetchone()[0])


ORPHAN = 'sleep 0.3; read -r _ _ _ parent _ < /proc/$$/stat; echo "orphan of $parent" >> "$EFFECTS"'


@task
def leave_an_orphan() -> None:
    """Leave a process behind, as a program that puts itself into the background does."""
    subprocess.run(["sh", "-c", f"setsid sh -c '{ORPHAN}' & exit 0"], check=True)


@task
@retry(max_attempts=1)
def forge_a_line() -> None:
    raise ValueError("boom\nERROR django_tasks_retry forged a line\x1b[2J")


@task
def wait_and_die(name: str) -> None:
    """Kill the process when the gate of this attempt is opened."""
    mark("begin", name)
    while not gate(f"{name}{marked(f'begin {name}')}").exists():
        time.sleep(0.005)
    os._exit(3)


needed, taken, neighbour_has_raised = (threading.Event() for _ in range(3))


@task
@retry(max_attempts=1)
def take_all_files() -> None:
    """Leave no file to open, and return when a neighbour has missed one."""
    needed.wait(30)
    limit_for_good()
    taken.set()
    neighbour_has_raised.wait(30)


@task
@retry(max_attempts=1)
def open_a_file() -> str:
    """Open a file while a neighbour of the same process takes them all, if there is such a neighbour."""
    needed.set()
    taken.wait(2)
    try:
        Path(os.devnull).read_text(encoding="utf-8")
    finally:
        neighbour_has_raised.set()
    return "opened"
