"""Lanes that stand in code: what `@lane` attaches to a function."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, TypeVar

from ...errors import InvalidLane
from ..names import path_of
from .limits import Limit, Order, make_limit
from .templates import name_of_function

F = TypeVar("F", bound=Callable[..., Any])
LANE_ATTRIBUTE = "lane"


@dataclass(frozen=True, slots=True)
class Declaration:
    """The template of the lane's name, and the limit of every lane that it names."""

    template: str
    limit: Limit


def lane(
    template: str | None = None,
    *,
    running: int | None = None,
    starts: int | None = None,
    per: float | timedelta | None = None,
    weight: float = 1.0,
    order: Order = "eta",
    trips: float | None = None,
) -> Callable[[F], F]:
    """Put the calls of a function into lanes: `"tenant-{tenant_id}"` is filled in from the arguments of each call.

    Of one lane, at most `running` run at once, over all workers, and at most `starts` start in any window of `per`
    seconds. Lanes of one priority share workers by `weight`. With `order="strict"` a task begins when the one before
    it has ended for good. A lane pauses itself when the share `trips` of its attempts fails. Without a template all
    calls of the function share one lane. Stands below `@task`.
    """
    limit = make_limit(running=running, starts=starts, per=per, weight=weight, order=order, trips=trips)
    if template is not None and not isinstance(template, str):
        raise InvalidLane("@lane needs brackets, and a text as its template: @lane('tenant-{tenant_id}').")

    def decorate(function: F) -> F:
        if hasattr(function, "enqueue"):
            raise InvalidLane("@lane stands above @task: write it below, next to the function.")
        if declaration_of(function) is not None:
            raise InvalidLane(f"{function.__qualname__} is given two lanes: a task has one.")
        name = name_of_function(path_of(function)).replace("{", "{{") if template is None else template
        setattr(function, LANE_ATTRIBUTE, Declaration(name, limit))
        return function

    return decorate


def declaration_of(function: Callable[..., Any]) -> Declaration | None:
    found = getattr(function, LANE_ATTRIBUTE, None)
    return found if isinstance(found, Declaration) else None
