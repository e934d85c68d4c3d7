from __future__ import annotations

import argparse
from typing import Any

from ...display.formatting import format_capped, format_duration, one_line
from ...display.redact import redact_text
from ...taskqueue.lanes.summaries import LaneSummary, summarize_lanes
from ..exit_codes import Exit
from ..subcommand import Context, Subcommand

HEADINGS = ("LANE", "STATE", "RUNNING", "STARTED", "WAITING", "WEIGHT", "DECIDED BY")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("search", nargs="?", default="", metavar="TEXT", help="lanes whose names hold this text")


def run(context: Context) -> Exit:
    lanes = summarize_lanes(context.backend, context["search"])
    if context.output.as_json:
        for lane in lanes:
            context.output.record(record_of(lane))
        return Exit.OK
    context.output.table(HEADINGS, [row_of(lane) for lane in lanes])
    for lane in lanes:
        if lane.is_paused:
            reason = one_line(redact_text(lane.state.reason), 200) or "no reason given"
            context.output.say(f"{one_line(lane.label, 100)} was paused by {lane.state.paused_by}: {reason}")
    return Exit.OK


def row_of(lane: LaneSummary) -> tuple[str, ...]:
    most, starts = lane.limit.most_running, lane.limit.starts
    return (
        one_line(lane.label, 100),
        state_of(lane),
        f"{lane.running}" if most is None else f"{lane.running} of {most}",
        "" if starts is None else f"{lane.started} of {starts} in {format_duration(lane.limit.per)}",
        format_capped(lane.waiting),
        f"{lane.limit.weight:g}",
        one_line(lane.state.decided_by, 60),
    )


def state_of(lane: LaneSummary) -> str:
    if lane.is_paused:
        return "TRIPPED" if lane.state.probe_at else "PAUSED"
    if lane.state.probing_since:
        return "probing"
    if lane.is_throttled:
        return f"opens in {format_duration(lane.opens_in)}"
    return "full" if lane.is_full else "open"


def record_of(lane: LaneSummary) -> dict[str, Any]:
    return {
        "lane": lane.label,
        "state": state_of(lane),
        "running": lane.running,
        "most_running": lane.limit.most_running,
        "started": lane.started,
        "starts": lane.limit.starts,
        "per": lane.limit.per if lane.limit.starts else None,
        "opens_in": lane.opens_in,
        "waiting": lane.waiting,
        "weight": lane.limit.weight,
        "paused_by": lane.state.paused_by,
        "reason": redact_text(lane.state.reason),
        "decided_by": lane.state.decided_by,
        "decided_for": redact_text(lane.state.decided_for),
    }


COMMAND = Subcommand("lanes", "Lanes that are limited or paused: what runs, what waits.", run, add_arguments)
