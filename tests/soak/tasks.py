"""Three cohorts of tasks: short ones, ones about as long as a lease, and ones that misbehave."""

from __future__ import annotations

import asyncio
import os
import random
import sys
import time
from typing import Any

from django_tasks_retry import retry
from django_tasks_retry.compat import task
from django_tasks_retry.taskqueue import Request, current_lease
from tests.soak import journal


def note(word: str) -> None:
    journal.write(word, current_lease.get())


BUDGET = 60  # a task that is killed again and again must not run out of attempts


@task
@retry(max_attempts=BUDGET)
def work(number: int, seconds: float) -> int:
    note("start")
    time.sleep(seconds)
    note("end")
    return number


@task
@retry(max_attempts=BUDGET)
async def awork(number: int, seconds: float) -> int:
    note("start")
    await asyncio.sleep(seconds)
    note("end")
    return number


@task
@retry(max_attempts=BUDGET)
def canary(number: int) -> int:
    note("start")
    note("end")
    return number


@task
@retry(max_attempts=BUDGET)
def misbehave(number: int, how: str) -> Any:
    """Goes wrong at the first attempt."""
    note("start")
    result = MISDEEDS[how]() if current_lease.get().attempts == 1 else number
    note("end")
    return result


@task
@retry(max_attempts=2)
def return_unstorable(number: int, how: str) -> str:
    note("start")
    note("end")
    return UNSTORABLE[how]


def fail(text: str) -> None:
    raise ValueError(text)


MISDEEDS = {
    "raise": lambda: fail("no"),
    "raise huge": lambda: fail("x" * 5_000_000),
    "raise NUL": lambda: fail("a\0b\ud800"),
    "exit": lambda: sys.exit(3),
    "exit hard": lambda: os._exit(3),
}
UNSTORABLE = {"NUL": "\0", "huge": "x" * 5_000_000}


def request(number: int, chance: random.Random, lease: float) -> Request:
    """80 % short, 15 % of 0.3 to 1.2 leases, 5 % that misbehave."""
    dice = chance.random()
    if dice < 0.01:
        return Request(return_unstorable, [number, chance.choice(list(UNSTORABLE))])
    if dice < 0.05:
        return Request(misbehave, [number, chance.choice(list(MISDEEDS))])
    seconds = chance.uniform(0.3, 1.2) * lease if dice < 0.20 else chance.uniform(0, 0.02)
    return Request(chance.choice([work, awork]), [number, seconds])
