"""Shared by the scripts of all contenders. Needs nothing but Python, whatever their environments hold."""

from __future__ import annotations

import asyncio
import inspect
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

PAUSE = 0.05
URL = os.environ.get("BENCHMARK_DATABASE", "")


def tell(value: Any) -> None:
    print(json.dumps(value))


def timed(action: Callable[[], Any], times: int = 1) -> None:
    began = time.perf_counter()
    for _ in range(times):
        action()
    tell(time.perf_counter() - began)


async def timed_async(action: Callable[[], Any], times: int = 1) -> None:
    began = time.perf_counter()
    for _ in range(times):
        await action()
    tell(time.perf_counter() - began)


def latency(enqueue: Callable[[], Any], count: int, pause: float = PAUSE) -> None:
    returned = []
    for _ in range(count):
        time.sleep(pause)
        enqueue()
        returned.append(time.monotonic())
    tell(returned)


async def latency_async(enqueue: Callable[[], Any], count: int) -> None:
    returned = []
    for _ in range(count):
        await asyncio.sleep(PAUSE)
        await enqueue()
        returned.append(time.monotonic())
    tell(returned)


def stamp() -> None:
    """Note when a task began, by the clock that all processes of a host share."""
    began = time.monotonic()
    with Path(os.environ["BENCHMARK_STAMPS"]).open("a") as stamps:
        stamps.write(f"{began}\n")


def crew(processes: int, *command: str) -> None:
    """The same command so many times at once."""
    for member in [subprocess.Popen([sys.executable, *command]) for _ in range(processes)]:
        member.wait()


def main(verbs: Mapping[str, Callable[..., Any]]) -> None:
    """Run the verb that the command line names, with its numbers and names."""
    answer = verbs[sys.argv[1]](*(int(given) if given.isdigit() else given for given in sys.argv[2:]))
    if inspect.iscoroutine(answer):
        asyncio.run(answer)
