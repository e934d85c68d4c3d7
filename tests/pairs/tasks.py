"""One function that does what the features of a pair ask for, plainly or in a lane of strict order."""

from __future__ import annotations

from typing import Any

from django_tasks_retry import Abort, call, lane, retry
from django_tasks_retry.compat import task

effects: list[str] = []
"""Names of what was done, in order."""


def note(name: str) -> str:
    effects.append(name)
    return name


def do(context: Any, deeds: list[str]) -> str:
    for deed in deeds:
        DEEDS[deed](context)
    return "done"


def fail_once(context: Any) -> None:
    if "failed" not in effects:
        note("failed")
        raise RuntimeError("the first attempt fails")


DEEDS = {
    "step": lambda context: context.step("step", note, "step"),
    "gather": lambda context: list(context.gather("parts", [call(part, 1), call(part, 2)])),
    "sleep": lambda context: context.sleep("nap", 60),
    "signal": lambda context: context.wait_for("paid"),
    "retry": fail_once,
}


@task
def part(number: int) -> str:
    return note(f"part {number}")


@task
def beside() -> str:
    return note("beside")


@task(takes_context=True)
@retry(max_attempts=3, backoff=[30, 30])
def work(context: Any, deeds: list[str]) -> str:
    return do(context, deeds)


@task(takes_context=True)
@retry(max_attempts=3, backoff=[30, 30])
@lane("one after the other", order="strict")
def ordered_work(context: Any, deeds: list[str]) -> str:
    return do(context, deeds)


@task
def fails() -> None:
    raise Abort("it fails for good")
