"""Lanes, and the limits of lanes, queues and functions."""

from __future__ import annotations

import argparse
from typing import Any

from .. import taskqueue
from ..display.formatting import format_capped, format_duration, one_line
from ..durations import read_duration
from ..models import FlowLimit
from ..rules.lanes.limits import WINDOW, Limit
from ..rules.redact import redact_text
from ..taskqueue.lanes.summaries import LaneSummary, summarize_lanes
from .queues import say_paused
from .subcommand import WHY_IT_WAITS, CliError, Context, checked, command, option

NUMBERS = ("concurrency", "rate", "weight")
HEADINGS = ("LANE", "STATE", "RUNNING", "STARTED", "WAITING", "WEIGHT", "DECIDED BY")


@command(
    "lanes", "Lanes that are limited or paused: what runs, what waits.",
    option("search", nargs="?", default="", metavar="TEXT", help="lanes whose names hold this text"),
)  # fmt: skip
def lanes(context: Context) -> None:
    found = summarize_lanes(context.backend, context["search"])
    context.output.listing(found, lane_record, HEADINGS, lane_row)
    if not context.output.as_json:
        say_paused(context, [lane.state for lane in found])
    if not found:
        context.output.say("No lane is limited or paused.")


def lane_row(lane: LaneSummary) -> tuple[str, ...]:
    most, starts = lane.limit.most_running, lane.limit.starts
    return (
        one_line(lane.label, 100),
        state_of(lane),
        f"{lane.running}" if most is None else f"{lane.running} of {most}",
        "" if starts is None else f"{lane.started} of {starts} in {format_duration(lane.limit.per)}",
        format_capped(lane.waiting),
        f"{lane.limit.weight:g}",
        one_line(lane.state.decided_by, 60) if lane.state.is_decided else "",
    )


def lane_record(lane: LaneSummary) -> dict[str, Any]:
    return {
        "lane": lane.label,
        "state": state_of(lane),
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


def state_of(lane: LaneSummary) -> str:
    if lane.is_paused:
        return "TRIPPED" if lane.state.probe_at else "PAUSED"
    if lane.trouble:
        return "UNREADABLE"
    if lane.state.probing_since:
        return "probing"
    if lane.is_throttled:
        return f"opens in {format_duration(lane.opens_in)}"
    return "full" if lane.is_full else "open"


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
