from __future__ import annotations

import argparse

from ... import taskqueue
from ...display.formatting import one_line
from ..exit_codes import CliError, Exit
from ..selecting import check_schedule
from ..subcommand import Context, Subcommand, actor


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("name", metavar="NAME")
    parser.add_argument("--reason", required=True, metavar="TEXT", help="shown to whoever asks why it does not run")


def run(context: Context) -> Exit:
    check_schedule(context)
    name = one_line(context["name"], 128)
    if not taskqueue.pause_schedule(context["name"], by=actor(), reason=context["reason"], backend=context.backend):
        raise CliError(f"Schedule {name} was paused before.", Exit.REFUSED)
    if context.output.as_json:
        context.output.record({"action": "pause-schedule", "schedule": context["name"], "done": 1})
    else:
        context.output.line(f"Schedule {name} is paused.")
    return Exit.OK


COMMAND = Subcommand("pause-schedule", "Enqueue nothing for a schedule, until it is resumed.", run, add_arguments)
