"""The tasks of the soak: short ones, ones about as long as a lease, ones that misbehave, and those of cohorts.py."""

from __future__ import annotations

import asyncio
import os
import random
import sys
import time
from typing import Any

from django_tasks_retry import retry
from django_tasks_retry.compat import task
from django_tasks_retry.taskqueue import EnqueueOptions, current_lease
from tests.soak.cohorts import (
    BUDGET,
    FORKS,
    OVERRUN_SECONDS,
    SLOW_ENDS,
    block,
    cancel_others,
    end_slowly,
    fork,
    note,
    overrun,
)
from tests.soak.lanes import FUNCTIONS  # noqa: F401 - registered by being imported
from tests.soak.workflows import branch, flow, leaf  # noqa: F401 - registered by being imported


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


def request(number: int, chance: random.Random, lease: float) -> EnqueueOptions:
    """80 % short, 14 % of 0.3 to 1.2 leases, 5 % that misbehave, 1 % that are hard to serve."""
    dice = chance.random()
    if dice < 0.01:
        return EnqueueOptions(return_unstorable, [number, chance.choice(list(UNSTORABLE))])
    if dice < 0.05:
        return EnqueueOptions(misbehave, [number, chance.choice(list(MISDEEDS))])
    if dice < 0.06:
        return hard_request(number, chance, lease)
    return plain_request(number, chance, lease, is_long=dice < 0.20)


def lawful_request(number: int, chance: random.Random, lease: float) -> EnqueueOptions:
    """For a while without faults: of these none ends its process."""
    dice = chance.random()
    return hard_request(number, chance, lease) if dice < 0.1 else plain_request(number, chance, lease, dice < 0.5)


def plain_request(number: int, chance: random.Random, lease: float, is_long: bool) -> EnqueueOptions:
    seconds = chance.uniform(0.3, 1.2) * lease if is_long else chance.uniform(0, 0.02)
    return EnqueueOptions(chance.choice([work, awork]), [number, seconds])


def hard_request(number: int, chance: random.Random, lease: float) -> EnqueueOptions:
    match chance.choices(["fork", "end slowly", "block", "cancel", "overrun"], [6, 6, 3, 3, 1])[0]:
        case "fork":
            return EnqueueOptions(fork, [number, chance.choice(list(FORKS))])
        case "end slowly":
            return EnqueueOptions(
                end_slowly, [number, chance.choice(list(SLOW_ENDS)), chance.uniform(0.5, 2.0) * lease]
            )
        case "block":
            return EnqueueOptions(block, [number, chance.uniform(0.5, 2.0) * lease])
        case "cancel":
            return EnqueueOptions(cancel_others, [number])
        case _:
            return EnqueueOptions(overrun, [number, OVERRUN_SECONDS + 4 * lease])
