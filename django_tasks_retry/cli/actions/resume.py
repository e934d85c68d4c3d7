from __future__ import annotations

import argparse

from ... import taskqueue
from ...display.formatting import one_line
from ..exit_codes import CliError, Exit
from ..subcommand import Context, Subcommand, actor


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("queue", metavar="QUEUE")
    parser.add_argument("--reason", default="", metavar="TEXT", help="kept in the history")


def run(context: Context) -> Exit:
    queue = one_line(context["queue"], 64)
    if not taskqueue.resume(context["queue"], by=actor(), reason=context["reason"], backend=context.backend):
        raise CliError(f"Queue {queue} was not paused.", Exit.REFUSED)
    if context.output.as_json:
        context.output.record({"action": "resume", "queue": context["queue"], "done": 1})
    else:
        context.output.line(f"Queue {queue} is resumed.")
    return Exit.OK


COMMAND = Subcommand("resume", "Let the tasks of a paused queue start again.", run, add_arguments)
