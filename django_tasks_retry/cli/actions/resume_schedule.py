from __future__ import annotations

import argparse

from ... import taskqueue
from ...display.formatting import one_line
from ..exit_codes import CliError, Exit
from ..selecting import check_schedule
from ..subcommand import Context, Subcommand, actor


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("name", metavar="NAME")
    parser.add_argument("--reason", default="", metavar="TEXT", help="kept in the history")


def run(context: Context) -> Exit:
    check_schedule(context)
    name = one_line(context["name"], 128)
    if not taskqueue.resume_schedule(context["name"], by=actor(), reason=context["reason"], backend=context.backend):
        raise CliError(f"Schedule {name} was not paused.", Exit.REFUSED)
    if context.output.as_json:
        context.output.record({"action": "resume-schedule", "schedule": context["name"], "done": 1})
    else:
        context.output.line(f"Schedule {name} is resumed.")
    return Exit.OK


COMMAND = Subcommand("resume-schedule", "Go on with the next slot of a paused schedule.", run, add_arguments)
