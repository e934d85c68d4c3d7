"""The circuit breaker: a function or lane whose attempts fail pauses itself, probes one at a time, and resumes."""

from datetime import timedelta
from typing import Any

from django.db import transaction
from django.db.models import F, Sum

from ...clock import now
from ...models import FUNCTION, TRIPPED, FlowLimit, LaneStat, TaskStat, TaskTotal
from ..database import database
from ..enqueue.notify import notify_work_on_commit
from ..lanes import create_limits, has_breaker, has_breakers, limit_of, lock_limits
from ..reading import log_once
from ..statistics.stats import Counts
from ..statistics.summaries import depths
from .decisions import set_paused, set_resumed, write_decision

ACTOR = "breaker"
WINDOW = timedelta(minutes=2)
REST = timedelta(seconds=60)
FEWEST = 20  # attempts before anything is concluded from them


def tick_breakers(backend: str = "default") -> int:
    """Trip, probe and resume what is due. How many functions and lanes changed."""
    if not has_breakers(backend):
        return 0
    using = database(backend)
    labels = {label for label in worried(using) if has_breaker(label, backend)}
    labels |= {state.label for state in FlowLimit.objects.using(using).filter(TRIPPED).only("kind", "name")}
    if not labels:
        return 0
    create_limits(labels, using)
    with transaction.atomic(using=using):
        return sum(turned(state, backend) for state in lock_limits(labels, using).values())


def worried(using: str) -> list[str]:
    """Functions and lanes of which enough attempts ended lately, and some of them failed."""
    begin = now(using) - WINDOW
    of_functions = TaskStat.objects.using(using).filter(minute__gte=begin).order_by().values_list("func_path")
    of_lanes = LaneStat.objects.using(using).filter(minute__gte=begin).order_by().values_list("lane")
    failed = F("failed") + F("retried")
    functions = of_functions.annotate(bad=Sum(failed), seen=Sum(failed + F("completed")))
    lanes = of_lanes.annotate(bad=Sum("failed"), seen=Sum(F("failed") + F("completed")))
    enough = {"bad__gt": 0, "seen__gte": FEWEST}
    return [f"function:{path}" for path, *_ in functions.filter(**enough)] + [
        name for name, *_ in lanes.filter(**enough)
    ]


def turned(state: FlowLimit, backend: str) -> bool:
    """One function or lane, whose row is held: whether it changed."""
    if state.probing_since is not None:
        return judge_probe(state, backend)
    if state.paused_at is None:
        return trip(state, backend)
    if state.probe_at is not None and state.probe_at <= state.locked_at:
        begin_probe(state, database(backend))
        return True
    return False


def trip(state: FlowLimit, backend: str) -> bool:
    seen, share = recent(state, database(backend)), limit_of(state.label, backend).failure_threshold
    if share is None or seen.attempts < FEWEST or seen.failures < share * seen.attempts:
        return False
    pause(state, f"{seen.failures} of {seen.attempts} attempts failed in the last minutes", database(backend))
    return True


def pause(state: FlowLimit, reason: str, using: str) -> None:
    set_paused(state, ACTOR, reason, state.locked_at, using, probe_at=state.locked_at + REST)


def begin_probe(state: FlowLimit, using: str) -> None:
    """One at a time, until one has succeeded or failed."""
    state.probing_since = state.locked_at
    before = totals(state, using)
    probe = {"probe_at": None, "probing_since": state.locked_at, "probe_from": [before.completed, before.failures]}
    write_decision(state, "probing", {"paused_at": None, "paused_by": "", "reason": "", **probe}, ACTOR, "", using)
    notify_work_on_commit({depth.queue for depth in depths(using)}, using)


def judge_probe(state: FlowLimit, backend: str) -> bool:
    using = database(backend)
    before, after = before_probe(state), totals(state, using)
    if after.failures > before.failures:
        pause(state, "the probe failed", using)
    elif after.completed > before.completed:
        set_resumed(state, ACTOR, "the probe succeeded", now(using), using)
    else:
        return False
    return True


def before_probe(state: FlowLimit) -> Counts:
    """Return no outcomes if they cannot be read: earlier failures then end the probe, and the next counts anew."""
    match state.probe_from:
        case [int(completed), int(failed)]:
            return Counts(completed=completed, failed=failed)
    log_once("the outcomes before the probe of %r cannot be read; it is judged by all there are", state.label)
    return Counts()


def recent(state: FlowLimit, using: str) -> Counts:
    """Return the outcomes of the last minutes, of whole minutes since it was last resumed."""
    begin = now(using) - WINDOW
    if state.kind == FUNCTION:
        stats: Any = TaskStat.objects.using(using).filter(func_path=state.name, minute__gte=begin)
    else:
        stats = LaneStat.objects.using(using).filter(lane=state.name, minute__gte=begin)
    return summed(stats.filter(minute__gt=state.counts_from) if state.counts_from else stats, state.kind)


def totals(state: FlowLimit, using: str) -> Counts:
    """Counts that only grow while it probes: all of a function, or those of a lane since the minute it began."""
    if state.kind == FUNCTION or state.probing_since is None:
        return summed(TaskTotal.objects.using(using).filter(func_path=state.name), FUNCTION)
    begin = state.probing_since.replace(second=0, microsecond=0)
    return summed(LaneStat.objects.using(using).filter(lane=state.name, minute__gte=begin), state.kind)


def summed(rows: Any, kind: str) -> Counts:
    failed = F("failed") + F("retried") if kind == FUNCTION else F("failed")
    found = rows.aggregate(Sum("completed"), failures=Sum(failed))
    return Counts(completed=found["completed__sum"] or 0, failed=found["failures"] or 0)
