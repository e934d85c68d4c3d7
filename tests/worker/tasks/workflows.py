"""Tasks that remember, gather and wait, in real workers."""

from __future__ import annotations

from typing import Any

from django_tasks_retry import call
from django_tasks_retry.compat import task

__all__ = ["agathers", "gathers", "halve"]


@task
def halve(number: int) -> float:
    return number / 2


@task(takes_context=True)
def gathers(context: Any, numbers: list[int]) -> float:
    start = context.step("start", int, 100)
    return start + sum(context.gather("halves", [call(halve, number) for number in numbers]))


@task(takes_context=True)
async def agathers(context: Any, name: str) -> list[Any]:
    rows = await context.agather("sums", [call(gathers, [1, 2]), call(gathers, [3])])
    await context.asleep("nap", 0.1)
    found = await context.await_for(name, timeout=60)
    return [[row async for row in rows], found and found.payload]
