from __future__ import annotations

import argparse
from typing import Any

from ...display.explain_schedule import explain_schedule, state_of
from ...display.formatting import format_relative, one_line
from ...display.redact import redact_text, redact_value
from ...display.scope import Scope
from ...models import Schedule
from ...rules.names import short_name
from ..exit_codes import CliError, Exit
from ..records import local
from ..selecting import check_schedule
from ..subcommand import Context, Subcommand

HEADINGS = ("SCHEDULE", "STATE", "TASK", "WHEN", "TIME ZONE", "NEXT", "LAST", "LAST OUTCOME")
COLUMNS = (
    "name", "func_path", "args", "kwargs", "queue", "priority", "cron", "every", "timezone", "overlap", "late",
    "starts_at", "ends_at", "source", "paused_at", "paused_by", "vanished_at", "next_at", "last_at", "last_outcome",
)  # fmt: skip


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("name", nargs="?", metavar="NAME", help="only this one, and why it does or does not run")


def run(context: Context) -> Exit:
    scope = context.scope
    if context["name"]:
        check_schedule(context)
    schedules = Schedule.objects.using(context.using).filter(backend=context.backend).order_by("name")
    if context["name"]:
        schedules = schedules.filter(name=context["name"])
    found = list(schedules)
    if not found:
        raise CliError("There is no schedule.", Exit.NOT_FOUND)
    if context.output.as_json:
        for schedule in found:
            context.output.record(schedule_record(schedule, scope))
        return Exit.OK
    context.output.table(HEADINGS, [schedule_row(schedule, scope) for schedule in found])
    if context["name"]:
        context.output.line(why(found[0], scope))
    return Exit.OK


def why(schedule: Schedule, scope: Scope) -> str:
    return explain_schedule(schedule, scope, can_see_payload=True).sentence


def schedule_row(schedule: Schedule, scope: Scope) -> tuple[str, ...]:
    return (
        one_line(schedule.name, 128),
        state_of(schedule, scope.now).label,
        one_line(short_name(schedule.func_path), 60),
        one_line(schedule.cron, 60) or f"every {schedule.every:g} s",
        one_line(schedule.timezone, 40),
        format_relative(schedule.next_at, scope.now) if schedule.next_at else "",
        local(schedule.last_at),
        schedule.last_outcome,
    )


def schedule_record(schedule: Schedule, scope: Scope) -> dict[str, Any]:
    columns = {name: getattr(schedule, name) for name in COLUMNS}
    hidden = {name: redact_value("", columns[name], None) for name in ("args", "kwargs")}
    state = {"state": state_of(schedule, scope.now).label, "why": why(schedule, scope)}
    return {**columns, **hidden, **state, "reason": redact_text(schedule.reason)}


COMMAND = Subcommand("schedules", "Schedules: when each runs next, or why it does not.", run, add_arguments)
