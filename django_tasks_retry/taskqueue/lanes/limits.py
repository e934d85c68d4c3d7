"""Which limit a lane has: what the settings say, else the code. A person's decision, in its row, wins over both."""

from __future__ import annotations

from dataclasses import replace
from fnmatch import fnmatchcase
from functools import lru_cache
from typing import Any

from django.core.signals import setting_changed

from ... import registry
from ...conf import options
from ...models import LaneState, OperatorEvent
from ...rules.lanes.declarations import Declaration, declaration_of
from ...rules.lanes.limits import NO_LIMIT, Limit
from ...rules.lanes.templates import RESERVED, matcher
from ..database import database


def limit_of(label: str, backend: str) -> Limit:
    """Of a lane by its name, or of `queue:…` or `function:…` as a whole."""
    return known_limit(label, backend, registry.size())


@lru_cache(maxsize=10_000)
def known_limit(label: str, backend: str, _registered: int) -> Limit:
    """Remembered until more functions are registered."""
    configured: dict[str, Limit] = options(backend).limits
    if label in configured:
        return configured[label]
    for pattern, limit in configured.items():
        if fnmatchcase(label, pattern) and kind_of(label) == kind_of(pattern):
            return limit
    for declared in () if kind_of(label) else declarations():
        if matcher(declared.template).fullmatch(label):
            return declared.limit
    return NO_LIMIT


def kind_of(label: str) -> str:
    """`queue:` or `function:`, which `*` does not mean; nothing for a lane."""
    return next((kind for kind in RESERVED if label.startswith(kind)), "")


@lru_cache(maxsize=100)
def has_wholes(backend: str) -> bool:
    """Whether the settings limit whole queues or functions."""
    return any(map(kind_of, options(backend).lanes))


def has_breaker(label: str, backend: str) -> bool:
    return limit_of(label, backend).trips is not None


def has_breakers(backend: str) -> bool:
    """Whether any function or lane has a circuit breaker."""
    return knows_breakers(backend, registry.size())


@lru_cache(maxsize=100)
def knows_breakers(backend: str, _registered: int) -> bool:
    limits = [*options(backend).limits.values(), *(declared.limit for declared in declarations())]
    return any(limit.trips is not None for limit in limits)


def declarations() -> list[Declaration]:
    """Of all functions that this process knows."""
    return [declared for task in registry.registered() if (declared := declaration_of(task.func))]


def decided(state: LaneState, limit: Limit) -> Limit:
    """The limit with what a person decided in its place."""
    decisions = {name: value for name in LaneState.DECISIONS if (value := getattr(state, name)) is not None}
    if limit.order == "strict":
        decisions.pop("running", None)
    return replace(limit, **decisions) if decisions else limit


def largest_limit(lane: str, backend: str) -> Limit:
    """For an audit of the past: without what somebody decided otherwise, for however long."""
    limit, using = limit_of(lane, backend), database(backend)
    events = OperatorEvent.objects.using(using).filter(kind="lane.limited", subject=lane)
    changed = {name for data in events.values_list("data", flat=True) for name in data or ()}
    if limit.order == "strict":
        changed.discard("running")
    if changed & {"starts", "per"}:
        limit = replace(limit, starts=None)
    return replace(limit, running=None) if "running" in changed else limit


def forget(*, setting: str, **_: Any) -> None:
    if setting == "TASKS":
        known_limit.cache_clear()
        has_wholes.cache_clear()
        knows_breakers.cache_clear()


setting_changed.connect(forget, dispatch_uid="django_tasks_retry.lanes")
