"""Queues and lanes: how they stand; pause and resume queues, lanes, functions and schedules; limit lanes."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterable
from typing import Any

from .. import taskqueue
from ..display.events import describe_pauses
from ..display.formatting import format_capped, format_decimal, format_duration, format_percentage, one_line
from ..display.scope import read_standing
from ..display.states import lane_state, queue_state
from ..durations import read_duration
from ..models import FlowLimit, Queue, Schedule
from ..rules.lanes.limits import WINDOW, Limit
from ..rules.redact import redact_text
from ..taskqueue.control.decisions import KINDS, SCHEDULE, Pausable
from ..taskqueue.lanes.summaries import LaneSummary, summarize_lanes
from ..taskqueue.statistics.summaries import QueueFigures
from .subcommand import REASON, WHY_IT_WAITS, CliError, Context, Exit, checked, command, option

HEADINGS = ("QUEUE", "STATE", "READY", "OLDEST", "RUNNING", "WORKERS", "PER MINUTE", "FAILING")
LANES = ("LANE", "STATE", "RUNNING", "STARTED", "WAITING", "WEIGHT", "DECIDED BY")
NUMBERS = ("concurrency", "rate", "weight")
SUBJECT = (
    option("queue", nargs="?", metavar="QUEUE"),
    option("--lane", metavar="LANE", help="a lane instead of a queue"),
    option("--function", metavar="PATH", help="a function instead of a queue"),
    option("--schedule", metavar="NAME", help="a schedule instead of a queue"),
)


@command("queues", "Queues: how many tasks are ready, how long they wait, who serves them.")
def queues(context: Context) -> None:
    found = read_standing(context.scope).queues
    context.output.listing(found, queue_record, HEADINGS, queue_row)
    if context.output.as_json:
        return
    for queue in found:
        if queue.full_at:
            text = f"{one_line(queue.name, 64)} is full: {queue.full_at} tasks wait, and more calls raise QueueFull"
            context.output.say(text)
    say_paused(context, [queue.pause for queue in found if queue.pause])


def say_paused(context: Context, rows: Iterable[Pausable]) -> None:
    for name, pause in describe_pauses(rows).items():
        context.output.say(f"{one_line(name, 100)} was paused by {pause.by}: {pause.reason or 'no reason given'}")


def queue_record(queue: QueueFigures) -> dict[str, Any]:
    pause = queue.pause or Queue()
    names = (
        "name", "due", "oldest_seconds", "running", "is_paused", "workers", "slots", "attempts", "failures",
        "per_minute",
    )  # fmt: skip
    return {
        **{name: getattr(queue, name) for name in names},
        "state": queue_state(queue).name,
        "failing": queue.failures / queue.attempts if queue.attempts else None,
        "paused_at": pause.paused_at,
        "paused_by": pause.paused_by,
        "reason": redact_text(pause.reason),
    }


def queue_row(queue: QueueFigures) -> tuple[str, ...]:
    return (
        one_line(queue.name, 64),
        str(queue_state(queue).label),
        format_capped(queue.due),
        format_duration(queue.oldest_seconds) if queue.due else "",
        str(queue.running),
        str(queue.workers),
        format_decimal(queue.per_minute),
        format_percentage(queue.failures, queue.attempts),
    )


@command(
    "pause", "Let nothing of a queue, lane, function or schedule start, until it is resumed.", *SUBJECT, WHY_IT_WAITS
)
def pause(context: Context) -> None:
    switch(context, taskqueue.pause, *subject_of(context))


@command("resume", "Let a paused queue, lane, function or schedule start tasks again.", *SUBJECT, REASON)
def resume(context: Context) -> None:
    switch(context, taskqueue.resume, *subject_of(context))


def switch(context: Context, verb: Callable[..., bool], kind: str, name: str) -> None:
    """Pause or resume, and say so."""
    subject, action = f"{kind.capitalize()} {one_line(name, 128)}", verb.__name__
    if not verb(name, kind=kind, **context.decision):
        before = "was paused before" if action == "pause" else "was not paused"
        raise CliError(f"{subject} {before}.", Exit.REFUSED)
    goes_on = " Running tasks go on." if action == "pause" and kind != SCHEDULE else ""
    text = f"{subject} is {'paused' if action == 'pause' else 'resumed'}.{goes_on}"
    context.output.answer({"action": action, kind: name, "done": 1}, text)


def subject_of(context: Context) -> tuple[str, str]:
    """Return the kind and the name of the one subject that was given."""
    given = [(kind, context[kind]) for kind in KINDS if context[kind]]
    if len(given) != 1:
        raise CliError("Name one of these: QUEUE, --lane LANE, --function PATH or --schedule NAME.")
    kind, name = given[0]
    if kind == SCHEDULE and not Schedule.objects.using(context.using).filter(pk=name, backend=context.backend).exists():
        raise CliError(f"There is no schedule {one_line(name, 128)}.", Exit.NOT_FOUND)
    return kind, name


@command(
    "lanes", "Lanes that are limited or paused: what runs, what waits.",
    option("search", nargs="?", default="", metavar="TEXT", help="lanes whose names hold this text"),
)  # fmt: skip
def lanes(context: Context) -> None:
    found = summarize_lanes(context.backend, context["search"])
    context.output.listing(found, lane_record, LANES, lane_row)
    if not context.output.as_json:
        say_paused(context, [lane.state for lane in found])
    if not found:
        context.output.say("No lane is limited or paused.")


def lane_row(lane: LaneSummary) -> tuple[str, ...]:
    most, starts = lane.limit.most_running, lane.limit.starts
    return (
        one_line(lane.label, 100),
        str(lane_state(lane).label),
        f"{lane.running}" if most is None else f"{lane.running} of {most}",
        "" if starts is None else f"{lane.started} of {starts} in {format_duration(lane.limit.per)}",
        format_capped(lane.waiting),
        f"{lane.limit.weight:g}",
        one_line(lane.state.decided_by, 60) if lane.state.is_decided else "",
    )


def lane_record(lane: LaneSummary) -> dict[str, Any]:
    return {
        "lane": lane.label,
        "state": lane_state(lane).name,
        "running": lane.running,
        "concurrency": lane.limit.most_running,
        "started": lane.started,
        "rate": lane.limit.rate,
        "opens_in": lane.opens_in,
        "waiting": lane.waiting,
        "weight": lane.limit.weight,
        "paused_by": lane.state.paused_by,
        "reason": redact_text(lane.state.reason),
        "decided_by": lane.state.decided_by if lane.state.is_decided else "",
        "decided_for": redact_text(lane.state.decided_for) if lane.state.is_decided else "",
    }


def read_rate(text: str) -> tuple[int, float]:
    starts, slash, window = text.partition("/")
    if not (slash and starts.isdecimal()):
        raise ValueError(f"{text!r} is not a rate. Write 100/60 for 100 starts in 60 seconds, or 100/1m.")
    return int(starts), read_duration(window)


def refuse_old(_text: str) -> None:
    raise ValueError("write --concurrency N, or --rate 100/60 for 100 starts in 60 seconds.")


@command(
    "limit", "Decide the limits of a lane, queue or function: they win over the settings and the code until --clear.",
    option("lane", metavar="LANE", help="a lane, queue:NAME or function:PATH"),
    option("--concurrency", type=int, metavar="N", help="at most so many at once"),
    option("--rate", type=checked(read_rate), metavar="100/60", help="at most so many starts in so many seconds"),
    option("--weight", type=float, metavar="N", help="its share beside other lanes"),
    option("--clear", action="store_true", help="take the decision back: the settings and the code decide again"),
    option("--running", "--starts", "--per", dest="old", type=checked(refuse_old), help=argparse.SUPPRESS),
    WHY_IT_WAITS,
)  # fmt: skip
def limit(context: Context) -> None:
    wishes = {name: context[name] for name in NUMBERS if context[name] is not None}
    if bool(wishes) == context["clear"]:
        raise CliError("Give numbers (--concurrency, --rate, --weight), or --clear to take the limits back.")
    # The service layer replaces the whole decision: numbers that are not given stay as they were decided.
    stored = FlowLimit.objects.using(context.using).among([context["lane"]]).values_list(*FlowLimit.DECISIONS).first()
    running, starts, per, weight = stored or (None, None, None, None)
    before: dict[str, Any] = {"concurrency": running, "rate": starts and (starts, per or WINDOW), "weight": weight}
    decided = taskqueue.limit_lane(context["lane"], **(before | wishes if wishes else {}), **context.decision)
    record = {"concurrency": decided.most_running, "rate": decided.rate, "weight": decided.weight}
    whose = "The settings and the code decide again: " if context["clear"] else ""
    text = f"{one_line(context['lane'], 100)}: {whose}{limit_text(decided)}."
    context.output.answer({"action": "limit", "lane": context["lane"], "done": 1, **record}, text)


def limit_text(limit: Limit) -> str:
    most = [] if limit.most_running is None else [f"at most {limit.most_running} at once"]
    starts = [] if limit.starts is None else [f"at most {limit.starts} starts in {format_duration(limit.per)}"]
    return ", ".join([*(most + starts or ["no limit"]), f"weight {limit.weight:g}"])
