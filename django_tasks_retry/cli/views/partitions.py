from __future__ import annotations

from typing import Any

from ...display.formatting import format_number
from ...taskqueue.partitions.summaries import summarize
from ..exit_codes import Exit
from ..subcommand import Context, Subcommand

HEADINGS = ("NAME", "FROM", "UNTIL", "TASKS", "MEGABYTES", "DROPPED FROM")


def run(context: Context) -> Exit:
    summaries = summarize(context.using)
    if context.output.as_json:
        for each in summaries:
            context.output.record(each)
    elif summaries:
        context.output.table(HEADINGS, [row(each) for each in summaries])
    else:
        context.output.say("History is not partitioned. See: tasks partition")
    return Exit.OK


def row(each: dict[str, Any]) -> tuple[str, ...]:
    instants = (f"{each[name]:%Y-%m-%d %H:%M}" if each[name] else "never" for name in ("from", "until", "dropped_from"))
    first, last, dropped = instants
    return each["name"], first, last, format_number(each["tasks"]), format_number(each["bytes"] // 1_000_000), dropped


COMMAND = Subcommand("partitions", "The periods of a partitioned history, and when each will be dropped.", run)
