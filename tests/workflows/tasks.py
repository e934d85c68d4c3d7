"""Tasks that remember, fan out and wait."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from django.contrib.auth.models import Group

from django_tasks_retry import Abort, call, lane, retry
from django_tasks_retry.compat import task
from django_tasks_retry.models import Task

calls: list[Any] = []
"""The arguments that the functions were called with, in order."""


def note(value: Any) -> Any:
    calls.append(value)
    return value


async def anote(value: Any) -> Any:
    return note(value)


def write(name: str) -> int:
    note(name)
    return Group.objects.create(name=name).pk


@task
def double(number: int) -> int:
    return note(number) * 2


def is_negative(number: int) -> bool:
    return number < 0


@task
@retry(max_attempts=1)
def fragile(number: int) -> int:
    note(number)
    if is_negative(number):
        raise Abort(f"{number} is negative")
    return number


@task(takes_context=True)
@retry(max_attempts=5, backoff=[1, 1, 1, 1])
def steps(context: Any, *names: str, fail_at: str = "", atomic: bool = False) -> list[Any]:
    done = []
    for name in names:
        done.append(context.step(name, write if atomic else note, name, atomic=atomic))
        if name == fail_at and context.attempt == 1:
            raise RuntimeError(f"after {name}")
    return done


@task(takes_context=True)
async def asteps(context: Any) -> list[Any]:
    first = await context.astep("first", anote, "first")
    second = await context.astep("second", note, "second")
    await context.asleep("nap", 60)
    rows = await context.agather("parts", [call(double, 1), call(double, 2)])
    return [first, second, [row async for row in rows], await context.acall("one", double, 5)]


@task(takes_context=True)
def nap(context: Any, seconds: float = 3600) -> str:
    note("before")
    context.sleep("nap", timedelta(seconds=seconds))
    note("after")
    return "rested"


def each(number: int) -> int:
    return number


@task(takes_context=True)
def fan_out_of(context: Any, count: int) -> None:
    context.gather("members", (call(double, each(number)) for number in range(count)))


@task(takes_context=True)
def fan_out(context: Any, numbers: list[int], **how: Any) -> Any:
    rows = context.gather("parts", [call(fragile, number) for number in numbers], **how)
    return [row if isinstance(row, int) else row.message for row in rows]


@task(takes_context=True)
def tree(context: Any, levels: int, width: int) -> int:
    """The number of leaves of a tree of batches."""
    if not levels:
        return 1
    return sum(context.gather("branches", [call(tree, levels - 1, width) for _ in range(width)]))


@task(takes_context=True)
def growing(context: Any, left: int) -> int:
    """A member that adds one more, until none is left."""
    if left:
        context.add_members("more", [call(growing, left - 1)])
    return left


@task(takes_context=True)
def grow(context: Any, left: int) -> list[int]:
    return list(context.gather("seeds", [call(growing, left)]))


@task(takes_context=True)
def approval(context: Any, name: str, seconds: float | None = None) -> Any:
    found = context.wait_for(name, timeout=None if seconds is None else timedelta(seconds=seconds))
    return found.payload if found else "too late"


@task(takes_context=True)
def publish(context: Any, title: str, errors: str = "return") -> list[Any]:
    return [title, *(row or 0 for row in context.batch_results(errors=errors))]


@task(takes_context=True)
@retry(atomic=True, max_attempts=1)
def remembers_in_a_transaction(context: Any) -> None:
    context.step("refused", note, 1)


@task(takes_context=True)
@retry(max_attempts=1)
def says_twice(context: Any) -> None:
    context.step("same", note, 1)
    context.step("same", note, 2)


@task(takes_context=True)
@retry(max_attempts=1)
def swallows(context: Any) -> str:
    try:
        context.sleep("nap", 60)
    except Exception:  # noqa: BLE001 - what a hurried author writes
        return "swallowed"
    return "slept"


@task(takes_context=True)
@retry(max_attempts=9, backoff=[1] * 8)
def everything(context: Any) -> list[Any]:
    context.step("stock", write, "stock", atomic=True)
    rows = context.gather("parts", [call(double, 1), call(double, 2)])
    return [list(rows), context.wait_for("go").payload]


def combine(op: str, values: list[int]) -> int:
    return sum(values) if op == "sum" else max(values, default=0)


@task(takes_context=True)
def node(context: Any, graph: Any) -> int:
    """A graph of sums and maxima, each of its nodes a task."""
    if isinstance(graph, int):
        return graph
    return combine(graph["op"], list(context.gather("below", [call(node, each) for each in graph["of"]])))


@task
@lane("ledger-{account}", order="strict")
def enter(account: int, amount: int) -> int:
    return note(amount)


@task(takes_context=True)
@lane("ledger-{account}", order="strict")
def settle(context: Any, account: int, parts: list[Any]) -> int:
    """Amounts, and lists of them, which are settled by tasks like this one; all in the lane of the account."""
    calls = [call(settle if isinstance(part, list) else enter, account, part) for part in parts]
    return sum(context.gather("parts", calls))


@task(takes_context=True)
def gather_and_fail(context: Any, numbers: list[int]) -> int:
    """Fails after its batch; where it is resumed it sleeps for a year, and only then looks at the results."""
    rows = context.gather("parts", [call(fragile, number) for number in numbers])
    if not Task.objects.get(pk=context.lease.id).retry_of_id:
        raise Abort("once")
    context.sleep("year", timedelta(days=401))
    return sum(rows)


def pay() -> object:
    note("paid")
    return object()


@task(takes_context=True)
def unstorable(context: Any) -> None:
    context.step("pay", pay)


@task(takes_context=True)
async def aunstorable(context: Any) -> None:
    await context.astep("pay", pay)


@task
def announce() -> str:
    return note("announced")


@task
def place(result: int, *, shelf: str) -> list[Any]:
    return note([result, shelf])


@task
def echo(text: str) -> str:
    return note(text)
