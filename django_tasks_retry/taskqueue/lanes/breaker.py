"""The circuit breaker: a function most of whose attempts fail pauses itself, probes one at a time, and resumes."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import NamedTuple

from django.db import transaction
from django.db.models import F, Sum

from ... import registry
from ...clock import now
from ...models import LaneState, TaskStat, TaskTotal
from ..database import database
from ..operator.summaries import depths
from ..producer.wakeup import announce_work
from .control import set_paused, tell
from .limits import has_wholes, limit_of
from .states import hold, make

ACTOR = "breaker"
WINDOW = timedelta(minutes=2)
REST = timedelta(seconds=60)
FEWEST = 20
"""Attempts before anything is concluded from them."""


class Outcomes(NamedTuple):
    good: int = 0
    bad: int = 0

    @property
    def all(self) -> int:
        return self.good + self.bad


def tick_breakers(backend: str = "default") -> int:
    """Trip, probe and resume what is due. How many functions changed."""
    if not has_wholes(backend):
        return 0
    paths = [path for path in registry.known_paths() if limit_of(f"function:{path}", backend).trips is not None]
    using = database(backend)
    worried = [path for path in paths if recent(path, None, using).bad]
    labels = {f"function:{path}" for path in worried}
    labels |= {f"function:{state.name}" for state in tripped(paths, using)}
    if not labels:
        return 0
    make(labels, using)
    with transaction.atomic(using=using):
        return sum(turned(state, backend) for state in hold(labels, using).values())


def tripped(paths: Sequence[str], using: str) -> list[LaneState]:
    states = LaneState.objects.using(using).filter(kind="function", name__in=paths)
    return [state for state in states if state.probe_at or state.probing_since]


def turned(state: LaneState, backend: str) -> bool:
    """One function, whose row is held: whether it changed."""
    if state.probing_since is not None:
        return judge_probe(state, backend)
    if state.paused_at is None:
        return trip(state, backend)
    if state.probe_at is not None and state.probe_at <= state.held_at:
        begin_probe(state, database(backend))
        return True
    return False


def trip(state: LaneState, backend: str) -> bool:
    seen, share = recent(state.name, state.counts_from, database(backend)), limit_of(state.label, backend).trips
    if share is None or seen.all < FEWEST or seen.bad < share * seen.all:
        return False
    pause(state, f"{seen.bad} of {seen.all} attempts failed in the last minutes", database(backend))
    return True


def pause(state: LaneState, reason: str, using: str) -> None:
    set_paused(state, ACTOR, reason, state.held_at, state.held_at + REST)
    tell("lane.paused", state, ACTOR, reason, using)


def begin_probe(state: LaneState, using: str) -> None:
    """One at a time, until one has succeeded or failed."""
    state.paused_at, state.paused_by, state.reason = None, "", ""
    state.probe_at, state.probing_since, state.probe_from = None, state.held_at, list(totals(state.name, using))
    state.save()
    tell("lane.probing", state, ACTOR, "", using)
    announce_work({depth.queue for depth in depths(using)}, using)


def judge_probe(state: LaneState, backend: str) -> bool:
    using = database(backend)
    before, after = Outcomes(*state.probe_from or (0, 0)), totals(state.name, using)
    if after.bad > before.bad:
        pause(state, "the probe failed", using)
    elif after.good > before.good:
        state.probing_since = state.probe_from = None
        state.counts_from = now(using)
        state.save()
        tell("lane.resumed", state, ACTOR, "the probe succeeded", using)
        announce_work({depth.queue for depth in depths(using)}, using)
    else:
        return False
    return True


def recent(path: str, since: datetime | None, using: str) -> Outcomes:
    """Of the last minutes; whole ones after `since`, before which it was tripped."""
    begin = now(using) - WINDOW
    stats = TaskStat.objects.using(using).filter(func_path=path, minute__gte=begin)
    return summed(stats.filter(minute__gt=since) if since else stats)


def totals(path: str, using: str) -> Outcomes:
    return summed(TaskTotal.objects.using(using).filter(func_path=path))


def summed(rows: object) -> Outcomes:
    found = rows.aggregate(good=Sum("completed"), bad=Sum(F("failed") + F("retried")))  # type: ignore[attr-defined]
    return Outcomes(found["good"] or 0, found["bad"] or 0)
