"""Tasks that stay within the rules and are hard to serve: they fork, block, cancel others, overrun, or end slowly."""

from __future__ import annotations

import asyncio
import multiprocessing
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from typing import Any

from django_tasks_retry import retry
from django_tasks_retry.compat import task
from django_tasks_retry.taskqueue import current_lease
from tests.soak import journal
from tests.soak.crew import die_with_parent

BUDGET = 60  # a task that is killed again and again must not run out of attempts
ITEMS = 300_000
FORK = multiprocessing.get_context("fork")
JOIN_SECONDS = 10.0
OVERRUN_SECONDS = 0.5


def note(word: str) -> None:
    journal.write(word, current_lease.get())


@task
@retry(max_attempts=BUDGET)
def fork(number: int, how: str) -> int:
    """Fails where the processes that it starts are not ordinary ones."""
    note("start")
    FORKS[how]()
    note("end")
    return number


def use_pool() -> None:
    with FORK.Pool(2, initializer=die_with_parent) as pool:
        if pool.map(abs, [-1, 2]) != [1, 2]:
            raise RuntimeError("the pool does not work")


def terminate_process() -> None:
    process = FORK.Process(target=sleep_long)
    process.start()
    process.terminate()
    process.join(JOIN_SECONDS)
    if process.exitcode != -signal.SIGTERM:
        raise RuntimeError(f"a terminated process ended with {process.exitcode}")


def sleep_long() -> None:
    die_with_parent()
    time.sleep(60)


def start_program() -> None:
    command = [sys.executable, "-S", "-c", "import time; time.sleep(60)"]
    program = subprocess.Popen(command, preexec_fn=die_with_parent)
    program.terminate()
    if program.wait(JOIN_SECONDS) != -signal.SIGTERM:
        raise RuntimeError(f"a terminated program ended with {program.returncode}")


FORKS = {"pool": use_pool, "process": terminate_process, "program": start_program}


@task
@retry(max_attempts=BUDGET)
async def block(number: int, seconds: float) -> int:
    """Holds up every other coroutine of its process."""
    note("start")
    time.sleep(seconds)
    note("end")
    return number


@task
@retry(max_attempts=BUDGET)
async def cancel_others(number: int) -> int:
    note("start")
    for other in asyncio.all_tasks() - {asyncio.current_task()}:
        other.cancel()
    note("end")
    return number


@task
@retry(max_attempts=BUDGET)
def end_slowly(number: int, how: str, seconds: float) -> Any:
    """What it returns or raises takes a while to be looked at, or is more than can be stored."""
    note("start")
    note("end")
    return SLOW_ENDS[how](seconds) if current_lease.get().attempts == 1 else number


class SlowList(list[int]):
    seconds = 0.0

    def __iter__(self) -> Iterator[int]:
        time.sleep(self.seconds)
        return super().__iter__()


class SlowToTell(Exception):
    def __str__(self) -> str:
        time.sleep(self.args[0])
        return "at last"


def return_slow_list(seconds: float) -> list[int]:
    found = SlowList([1, 2, 3])
    found.seconds = seconds
    return found


def raise_slowly(seconds: float) -> None:
    raise SlowToTell(seconds)


SLOW_ENDS = {
    "many numbers": lambda _: list(range(ITEMS)),
    "many rows": lambda _: [{"id": n, "name": str(n)} for n in range(ITEMS // 3)],
    "slow to walk": return_slow_list,
    "slow to tell": raise_slowly,
}


@task
@retry(max_attempts=2, timeout=OVERRUN_SECONDS)
def overrun(number: int, seconds: float) -> int:
    """Does not yield to its timeout."""
    note("start")
    time.sleep(seconds)
    note("end")
    return number
