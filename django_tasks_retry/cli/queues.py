"""Queues and lanes: how they stand; pause and resume queues, lanes, functions and schedules; limit lanes."""

import argparse
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from .. import taskqueue
from ..display.events import describe_pauses
from ..display.formatting import format_capped, format_decimal, format_duration, format_percentage, one_line
from ..display.scope import read_standing
from ..display.states import lane_state, queue_state
from ..durations import read_duration
from ..models import FlowLimit, Schedule
from ..rules.lanes.limits import WINDOW, Limit
from ..rules.redact import redact_text
from ..taskqueue.control import KINDS, SCHEDULE, Pausable
from ..taskqueue.lanes import LaneSummary, summarize_lanes
from ..taskqueue.statistics import QueueFigures
from .output import Column, only_json
from .subcommand import REASON, WHY_IT_WAITS, CliError, Context, Exit, checked, command, option

FAILING: Column[Any] = Column(
    "failing", "FAILING", lambda each: format_percentage(each.failures, each.attempts),
    lambda each: each.failures / each.attempts if each.attempts else None,
)  # fmt: skip
QUEUES: Sequence[Column[QueueFigures]] = (
    Column("name", "QUEUE"),
    Column("state", "STATE", value=queue_state),
    Column("due", "READY", lambda queue: format_capped(queue.due)),
    Column("oldest_seconds", "OLDEST", lambda queue: format_duration(queue.oldest_seconds) if queue.due else ""),
    Column("running", "RUNNING"),
    Column("workers", "WORKERS"),
    Column("per_minute", "PER MINUTE", lambda queue: format_decimal(queue.per_minute)),
    FAILING,
    *only_json("is_paused", "slots", "attempts", "failures"),
    Column("paused_at", value=lambda queue: queue.pause and queue.pause.paused_at),
    Column("paused_by", value=lambda queue: queue.pause.paused_by if queue.pause else ""),
    Column("reason", value=lambda queue: redact_text(queue.pause.reason) if queue.pause else ""),
)  # fmt: skip


def running_text(lane: LaneSummary) -> str:
    most = lane.limit.most_running
    return str(lane.running) if most is None else f"{lane.running} of {most}"


def started_text(lane: LaneSummary) -> str:
    starts, per = lane.limit.starts, lane.limit.per
    return "" if starts is None else f"{lane.started} of {starts} in {format_duration(per)}"


LANES: Sequence[Column[LaneSummary]] = (
    Column("lane", "LANE", value=lambda lane: lane.label),
    Column("state", "STATE", value=lane_state),
    Column("running", "RUNNING", running_text),
    Column("concurrency", value=lambda lane: lane.limit.most_running),
    Column("started", "STARTED", started_text),
    Column("rate", value=lambda lane: lane.limit.rate),
    Column("opens_in"),
    Column("waiting", "WAITING", lambda lane: format_capped(lane.waiting)),
    Column("weight", "WEIGHT", lambda lane: f"{lane.limit.weight:g}", lambda lane: lane.limit.weight),
    Column("paused_by", value=lambda lane: lane.state.paused_by),
    Column("reason", value=lambda lane: redact_text(lane.state.reason)),
    Column("decided_by", "DECIDED BY", value=lambda lane: lane.state.decided_by if lane.state.is_decided else ""),
    Column("decided_for", value=lambda lane: redact_text(lane.state.decided_for) if lane.state.is_decided else ""),
)  # fmt: skip
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
    context.output.listing(found, QUEUES)
    for queue in found:
        if queue.full_at and not context.output.as_json:
            text = f"{one_line(queue.name, 64)} is full: {queue.full_at} tasks wait, and more calls raise QueueFull"
            context.output.say(text)
    say_paused(context, [queue.pause for queue in found if queue.pause])


def say_paused(context: Context, rows: Iterable[Pausable]) -> None:
    if context.output.as_json:
        return
    for name, pause in describe_pauses(rows).items():
        context.output.say(f"{one_line(name, 100)} was paused by {pause.by}: {pause.reason or 'no reason given'}")


@command(
    "pause", "Let nothing of a queue, lane, function or schedule start, until it is resumed.", *SUBJECT, WHY_IT_WAITS
)
def pause(context: Context) -> None:
    switch(context, taskqueue.pause, *subject_of(context))


@command("resume", "Let a paused queue, lane, function or schedule start tasks again.", *SUBJECT, REASON)
def resume(context: Context) -> None:
    switch(context, taskqueue.resume, *subject_of(context))


def switch(context: Context, verb: Callable[..., bool], kind: str, name: str) -> None:
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
    context.output.listing(found, LANES, "No lane is limited or paused.")
    say_paused(context, [lane.state for lane in found])


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
