"""Chains: calls one after the other, for people who come from Celery. One task runs them, and remembers its way."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ... import registry
from ...errors import InvalidCall, UnregisteredTask
from ...models import Task
from ...rules.calls import Call
from ...rules.names import path_of
from ..producer.enqueue import Request, enqueue, prepare


def enqueue_chain(calls: Sequence[Call], options: Mapping[str, Any]) -> Task:
    """One task for the whole chain, in the queue of its first call."""
    if not calls or not all(isinstance(each, Call) for each in calls):
        raise InvalidCall("chain(): give one call(…) or more.")
    first = prepare(Request.read(calls[0]))
    place = {"queue": first.queue, "priority": first.priority, "backend": first.backend}
    from ...tasks import run_chain

    return enqueue(
        Request.with_options(run_chain.func, args=[[spec_of(each) for each in calls]], **place | dict(options))
    )


def spec_of(each: Call) -> dict[str, Any]:
    """The call as plain values. Its function is found by the path under which it is registered."""
    path = path_of(registry.resolve(each.func).func)
    return {"func": path, "args": list(each.args), "kwargs": dict(each.kwargs), "options": dict(each.options)}


def call_of(spec: Mapping[str, Any], before: tuple[Any, ...]) -> Call:
    task = registry.find(spec["func"])
    if task is None:
        raise UnregisteredTask(f"The chain calls {spec['func']}, which this worker does not know.")
    return Call(task, (*before, *spec["args"]), spec["kwargs"], spec["options"])
