from __future__ import annotations

import argparse
from collections.abc import Sequence
from datetime import timedelta
from typing import Any

from ...display.formatting import format_decimal, format_duration, format_number, format_percentage, one_line
from ...durations import read_duration
from ...metrics import scrape
from ..exit_codes import Exit
from ..figures import COUNTS, attempts_by
from ..subcommand import Context, Subcommand, argument

HEADINGS = ("TASK", "QUEUE", "ATTEMPTS", "COMPLETED", "RETRIED", "FAILED", "FAILING", "PER MINUTE", "MEAN")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--since",
        type=argument(read_duration),
        default=3600.0,
        metavar="1h",
        help="how far back (default: 1h, most: 8d)",
    )
    parser.add_argument("--prometheus", action="store_true", help="all metrics, in the text format of Prometheus")


def run(context: Context) -> Exit:
    if context["prometheus"]:
        context.output.stdout.write(scrape(context.backend), ending="")
        return Exit.OK
    span = timedelta(seconds=context["since"])
    rows = [stat_record(row, span) for row in attempts_by(context.scope, span, "func_path", "queue")]
    rows.sort(key=lambda row: -row["attempts"])
    if context.output.as_json:
        for row in rows:
            context.output.record(row)
    else:
        as_table(context, rows)
    return Exit.OK


def stat_record(row: dict[str, Any], span: timedelta) -> dict[str, Any]:
    attempts = sum(row[name] for name in COUNTS)
    return {
        "task": row["func_path"],
        "queue": row["queue"],
        "attempts": attempts,
        **{name: row[name] for name in COUNTS},
        "failing": (row["retried"] + row["failed"]) / attempts if attempts else None,
        "per_minute": attempts / (span.total_seconds() / 60),
        "mean_seconds": row["seconds"] / attempts if attempts else None,
    }


def as_table(context: Context, rows: Sequence[dict[str, Any]]) -> None:
    if not rows:
        context.output.say("No attempt has ended in this time.")
        return
    context.output.table(HEADINGS, [stat_row(row) for row in rows])


def stat_row(row: dict[str, Any]) -> tuple[str, ...]:
    return (
        one_line(row["task"], 120),
        one_line(row["queue"], 64),
        *(format_number(row[name]) for name in ("attempts", *COUNTS)),
        format_percentage(row["retried"] + row["failed"], row["attempts"]),
        format_decimal(row["per_minute"]),
        format_duration(row["mean_seconds"] or 0),
    )


COMMAND = Subcommand("stats", "Attempts per function and queue, from the workers' statistics.", run, add_arguments)
