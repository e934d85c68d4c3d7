from __future__ import annotations

import argparse

from ... import taskqueue
from ...display.formatting import one_line
from ..exit_codes import Exit
from ..subcommand import Context, Subcommand, actor


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("queue", metavar="QUEUE")
    parser.add_argument("--reason", required=True, metavar="TEXT", help="shown to whoever asks why its tasks wait")


def run(context: Context) -> Exit:
    taskqueue.pause(context["queue"], by=actor(), reason=context["reason"], backend=context.backend)
    if context.output.as_json:
        context.output.record({"action": "pause", "queue": context["queue"], "done": 1})
    else:
        context.output.line(f"Queue {one_line(context['queue'], 64)} is paused. Running tasks go on.")
    return Exit.OK


COMMAND = Subcommand("pause", "Let no task of a queue start, until it is resumed.", run, add_arguments)
